"""Honest seconds: ways take turns, and every sample finds the memory as warm as the others did."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.fresh import Sample


class FreshBuffer:
    """Memory that nobody has touched, at some bytes behind a page's start."""

    def __init__(self, size: int, offset: int = 64) -> None:
        self._map = mmap.mmap(-1, size + 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self._map)[offset : offset + size]
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + offset


def take_turns(
    ways: Mapping[str, Callable[[], Sample]], rounds: int
) -> dict[str, tuple[list[Sample], int]]:
    """Take `rounds` samples of every way, in alternating order.

    At most twice as many are taken to find undisturbed ones, but only one where one is wanted.
    Disturbed ones count only if less than half of what was wanted came out calm.

    Returns:
        The samples that count, and how many were disturbed.
    """
    taken: dict[str, list[Sample]] = {name: [] for name in ways}
    for turn in range(2 * rounds if rounds > 1 else 1):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            if sum(sample.calm for sample in taken[name]) < rounds:
                taken[name].append(ways[name]())
    return {name: _counted(samples, rounds // 2 + 1) for name, samples in taken.items()}


def _counted(samples: list[Sample], enough: int) -> tuple[list[Sample], int]:
    calm = [sample for sample in samples if sample.calm]
    return (calm if len(calm) >= enough else samples), len(samples) - len(calm)
