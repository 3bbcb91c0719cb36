"""Ways that are compared in one alternating run, and the rows that come of it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.circumstances import of_payload
from bench.measuring import take_turns
from bench.rows import COUNTED, Row, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.fresh import Program, Sample
    from bench.parts import Setting
    from bench.rows import Traffic

    from sealcar.benching.usage import Counters, Memory


@dataclass(frozen=True)
class Way:
    """One way of a comparison.

    Attributes:
        name: in words.
        program: that goes it.
        reference: another way that this one is compared with.
        traffic: of the payload's bytes; None where that wasn't looked into.
        conditions: what else decides the figure, or decides it in place of `circumstances`.
    """

    name: str
    program: Program
    reference: str = ""
    traffic: Traffic | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)


def compare(ways: Iterable[Way], setting: Setting, *, watch: bool = True) -> list[Row]:
    """Run all of them in turns, and return a row for each way and stage.

    The first run of each isn't counted: its memory is watched, which takes time of its own, and it
    finds or fills the page cache.
    """
    kept = list(ways)
    memory = {way.name: way.program.watch() if watch else {} for way in kept}
    turns = {way.name: telling(way.name, way.program.sample, setting) for way in kept}
    taken = take_turns(turns, setting.rounds)
    return [row for way in kept for row in _rows(way, taken[way.name], memory[way.name])]


def telling(name: str, take: Callable[[], Sample], setting: Setting) -> Callable[[], Sample]:
    """Return what shows each sample when it was taken."""

    def told() -> Sample:
        sample = take()
        seconds = " ".join(f"{value * 1e3:.1f}" for value in sample.stages.values())
        setting.say(f"    {name}: {seconds} ms{'' if sample.calm else ' (disturbed)'}")
        return sample

    return told


def _rows(way: Way, taken: tuple[list[Sample], int], memory: Mapping[str, Memory]) -> list[Row]:
    samples, disturbed = taken
    row = Row(
        way.name,
        "",
        size=way.program.size,
        disturbed=disturbed,
        reference=way.reference,
        processes=usage(samples, memory),
        traffic=way.traffic,
        conditions={**of_payload(way.program.size), **way.conditions},
    )
    return [
        replace(row, stage=stage, samples=tuple(sample.stages[stage] for sample in samples))
        for stage in samples[0].stages
    ]


def usage(samples: Sequence[Sample], memory: Mapping[str, Memory]) -> dict[str, Usage]:
    """Return what every role needed: medians of what was counted, and the memory that was seen."""
    roles = {role: None for sample in samples for role in sample.needed} | dict.fromkeys(memory)
    return {
        role: _usage(
            [each.needed[role] for each in samples if role in each.needed], memory.get(role)
        )
        for role in roles
    }


def _usage(counted: list[Counters], memory: Memory | None) -> Usage:
    known = {
        name: sorted(
            value for value in (getattr(each, name) for each in counted) if value is not None
        )
        for name in COUNTED
    }
    known = {name: values for name, values in known.items() if values}
    return Usage(
        memory.private if memory else None,
        memory.proportional if memory else None,
        **{name: int(statistics.median(values)) for name, values in known.items()},
        least={name: values[0] for name, values in known.items()},
        most={name: values[-1] for name, values in known.items()},
    )
