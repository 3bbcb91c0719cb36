"""The benchmark's samples: ways take turns, and what was disturbed counts only where it must."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from bench.fresh import Program, Sample
from bench.measuring import take_turns
from bench.quiet import Quiet

from sealcar.benching.usage import Counters, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ANSWERS = """
import sys
print("ready", flush=True)
sys.stdin.readline()
kept = bytes(8 << 20)
print('{"done": 0.5}', flush=True)
sys.stdin.readline()
"""


def _way(name: str, calm: Iterator[bool], order: list[str]) -> Callable[[], Sample]:
    def take() -> Sample:
        order.append(name)
        return Sample({"done": float(len(order))}, next(calm), {})

    return take


def test_ways_take_turns_in_alternating_order() -> None:
    order: list[str] = []
    take_turns({name: _way(name, iter([True] * 3), order) for name in "ab"}, 3)
    assert order == list("baabba")


def test_disturbed_samples_are_taken_again_and_do_not_count() -> None:
    order: list[str] = []
    ways = {"a": _way("a", iter([False, True, False, True, True]), order)}
    samples, disturbed = take_turns(ways, 3)["a"]
    assert [sample.stages["done"] for sample in samples] == [2.0, 4.0, 5.0]
    assert disturbed == 2


def test_disturbed_samples_count_where_too_few_calm_ones_came() -> None:
    order: list[str] = []
    samples, disturbed = take_turns({"a": _way("a", iter([True] + [False] * 5), order)}, 3)["a"]
    assert len(samples) == len(order) == 6
    assert disturbed == 5


def test_a_sample_is_a_process_of_its_own_and_says_what_it_needed() -> None:
    program = Program((sys.executable, "-c", _ANSWERS), 0)
    sample = program.sample()
    assert sample.stages == {"done": 0.5}
    assert sample.needed["client"].minor_faults > 0
    assert program.watch()["client"].private > 0


def test_a_process_that_ends_without_an_answer_is_told_by_its_command() -> None:
    with pytest.raises(RuntimeError, match=r"ended without an answer, code 3"):
        Program((sys.executable, "-c", "raise SystemExit(3)"), 0).sample()


def test_computing_of_our_own_is_no_disturbance() -> None:
    quiet = Quiet([os.getpid()])
    while quiet.was(1e9) and quiet.needed[os.getpid()].busy < 0.05:
        sum(range(10_000))
    assert quiet.needed[os.getpid()].busy >= 0.05


def test_counters_and_memory_are_differences_and_peaks() -> None:
    first, second = Counters(10, 1, 5, None, 1.0), Counters(30, 1, 8, 4, 1.5)
    assert second.since(first) == Counters(20, 0, 3, None, 0.5)
    assert Memory(2, 5).or_more(Memory(3, 4)) == Memory(3, 5)
    assert Memory(2, 5).or_more(None) == Memory(2, 5)
