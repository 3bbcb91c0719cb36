"""Processes that say when they are ready, work when told to, and say in one line what they did."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.interrupts import held
from support.daemon import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextmanager
def ready(
    commands: Sequence[tuple[Sequence[str], Mapping[str, str]]],
) -> Iterator[list[subprocess.Popen[str]]]:
    """Have processes that are ready; they end with the block, and at once if that fails.

    Args:
        commands: of each its words, and variables of its environment, over ours.

    Raises:
        RuntimeError: one ended without a word.
    """
    running: list[subprocess.Popen[str]] = []
    try:
        for words, variables in commands:
            with held():
                process = subprocess.Popen(
                    words,
                    env=environment(variables),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    # an interrupt from a terminal is for the parent, which ends this one
                    process_group=0,
                )
                running.append(process)
        for process in running:
            line(process)
        yield running
    except BaseException:
        for process in running:
            process.kill()
        raise
    finally:
        for process in running:
            process.communicate()


def go(process: subprocess.Popen[str]) -> None:
    """Have one work."""
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    """Return what one says next; RuntimeError if it ended instead."""
    assert process.stdout
    found = process.stdout.readline()
    if not found:
        raise RuntimeError(f"{process.args!r} ended without an answer, code {process.wait()}")
    return found
