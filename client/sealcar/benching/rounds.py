"""All ways in turn, so that whatever changes on the machine meanwhile changes for all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sealcar.benching.figures import Figures, counted
from sealcar.benching.sampling import sample
from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sealcar.benching.sampling import Place, Sample, Way

    Watcher = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """How often, and in which states of the page cache.

    Attributes:
        rounds: samples of each way that are wanted.
        cold: also with nothing in the page cache.
        quick: one load of each way, in which memory is looked at too: to see that it works.
    """

    rounds: int = 5
    cold: bool = False
    quick: bool = False

    @property
    def loads(self) -> int:
        """About how many loads of each way there are in one state of the page cache."""
        return 1 if self.quick else self.rounds + 1


def measure(ways: Sequence[Way], place: Place, plan: Plan, watch: Watcher) -> list[Figures]:
    """Take all samples.

    A way that fails says why, and the others go on; only the first one, which the others are
    compared with, has to work.

    Args:
        ways: the first is what others are compared with.
        place: what they have in common.
        plan: how often.
        watch: is told what comes next, how much is done, and how much there is.

    Raises:
        SealcarError: why the first way can't be loaded.
    """
    states = (False, True) if plan.cold else (False,)
    a_state = len(ways) * plan.loads
    found: list[Figures] = []
    for number, cold in enumerate(states):

        def show(name: str, done: int, before: int = number * a_state) -> None:
            watch(name, before + done, len(states) * a_state)

        found += _Run(ways, place, plan, cold=cold).take(show)
    return found


class _Run:
    """The samples in one state of the page cache."""

    def __init__(self, ways: Sequence[Way], place: Place, plan: Plan, *, cold: bool) -> None:
        self._ways, self._place, self._plan, self._cold = ways, place, plan, cold
        self._taken: dict[str, list[Sample]] = {way.name: [] for way in ways}
        self._watched: dict[str, Sample] = {}
        self._failed: dict[str, str] = {}
        self._done = 0

    def take(self, watch: Callable[[str, int], None]) -> list[Figures]:
        for way in self._ways:
            watch(way.name, self._done)
            made = self._sample(way, watched=True)
            if made is not None:
                self._watched[way.name] = made
        if self._plan.quick:
            self._taken = {name: [made] for name, made in self._watched.items()}
            return [self._figures(way.name) for way in self._ways]
        # up to twice as many, to find undisturbed ones
        for turn in range(2 * self._plan.rounds):
            for way in self._ways[:: -1 if turn % 2 else 1]:
                if self._wants(way):
                    watch(way.name, self._done)
                    made = self._sample(way)
                    if made is not None:
                        self._taken[way.name].append(made)
        return [self._figures(way.name) for way in self._ways]

    def _wants(self, way: Way) -> bool:
        calm = sum(each.calm for each in self._taken[way.name])
        return way.name not in self._failed and calm < self._plan.rounds

    def _sample(self, way: Way, *, watched: bool = False) -> Sample | None:
        try:
            made = sample(way, self._place, cold=self._cold, watched=watched)
        except SealcarError as error:
            if way is self._ways[0]:
                raise
            self._failed[way.name] = str(error)
            return None
        self._done += 1
        return made

    def _figures(self, name: str) -> Figures:
        cache = "cold" if self._cold else "warm"
        if name in self._failed:
            return Figures(name, cache, (), failed=self._failed[name])
        samples, disturbed = counted(self._taken[name], self._plan.rounds)
        made = Figures(name, cache, samples, disturbed)
        return replace(made, watched=self._watched.get(name))
