"""The whole measurement of one model: which ways there are, and what they took."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sealcar.benching import machine, rounds
from sealcar.benching.figures import alike
from sealcar.benching.jobs import MEMORY, PLAIN, READY, SEALED, TMPFS, TUNED, Job
from sealcar.benching.sampling import Place, Way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sealcar.benching.figures import Figures
    from sealcar.benching.rounds import Plan, Watcher
    from sealcar.benching.stage import Daemon
    from sealcar.benching.subjects import Subject

PLAINLY: Final = "plain"
TUNED_PLAINLY: Final = "plain, with the options that sealcar sets"
PRIVATE: Final = "sealcar, private"
SHARED_FIRST: Final = "sealcar, shared, first worker"
SHARED_NEXT: Final = "sealcar, shared, next worker"
BY_TMPFS: Final = "decrypted to tmpfs, then plain"
# by their names in the report
_RATIOS: Final = {
    "plain_with_options_vs_plain": TUNED_PLAINLY,
    "private_vs_plain": PRIVATE,
    "shared_first_vs_plain": SHARED_FIRST,
    "shared_next_vs_plain": SHARED_NEXT,
    "tmpfs_vs_plain": BY_TMPFS,
}


@dataclass(frozen=True)
class Wish:
    """What whoever calls wants of every load.

    Attributes:
        plugin, plugin_options, threads, dims, feed: as in `Job`.
    """

    plugin: str = ""
    plugin_options: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0
    dims: Mapping[str, int] = field(default_factory=dict)
    feed: str = ""


@dataclass(frozen=True)
class Outcome:
    """What was found.

    Attributes:
        subject: the model.
        figures: of each way, in each state of the page cache.
        daemon: whose: "its own" or "the one that runs".
    """

    subject: Subject
    figures: tuple[Figures, ...]
    daemon: str

    def reference(self, one: Figures) -> Figures:
        """Return the plain way in the same state of the page cache."""
        return next(f for f in self.figures if (f.way, f.cache) == (PLAINLY, one.cache))

    def differ(self) -> list[str]:
        """Return the ways that answered something else than the plain one."""
        found = {f.way for f in self.figures if alike(f, self.reference(f)) is False}
        return sorted(found)

    def ratios(self) -> dict[str, float]:
        """Return time ours over time plain until the session was ready, with a warm cache."""
        found = {each.way: each for each in self.figures if each.cache == "warm"}
        made = {
            name: found[way].ratio(READY, found[PLAINLY])
            for name, way in _RATIOS.items()
            if way in found
        }
        return {name: ratio for name, ratio in made.items() if ratio is not None}

    def as_json(self) -> dict[str, Any]:
        """Return one object of plain values."""
        subject = self.subject
        return {
            "model": subject.model.name,
            "size": subject.size,
            "sha256": subject.digests(),
            "component": subject.component,
            "variant": subject.variant,
            "daemon": self.daemon,
            "machine": machine.description(),
            "reference": PLAINLY,
            "ratios": self.ratios(),
            "answers_differ": self.differ(),
            "first_token": "not measured: a session answers once, no text is generated",
            "ways": [each.as_json(self.reference(each)) for each in self.figures],
        }


def ways(subject: Subject, daemon: Daemon, wish: Wish) -> list[Way]:
    """Return the ways that this model can be loaded; the plain one first."""
    plain = Job(
        PLAIN,
        str(subject.model.absolute()),
        tuple(str(each.absolute()) for each in subject.files),
        socket=daemon.socket,
        address=(daemon.scope.package, daemon.scope.component, daemon.scope.variant),
        beside=bool(subject.files),
        plugin=wish.plugin,
        plugin_options=wish.plugin_options,
        session_options=subject.session_options,
        provider_options=subject.provider_options,
        threads=wish.threads,
        dims=wish.dims,
        feed=wish.feed,
        extra={"ep": subject.ep},
    )
    in_store = replace(plain, files=(), beside=len(subject.sealed) > 1)
    private = replace(in_store, loader=SEALED)
    shared = replace(private, initializers="shared")
    found = [Way(PLAINLY, plain)]
    if not wish.plugin:  # the options are for the CPU
        found.append(Way(TUNED_PLAINLY, replace(plain, loader=TUNED)))
    found.append(Way(PRIVATE, private, daemon.key_at_hand))
    if subject.weights:
        if daemon.admin is not None:
            found.append(Way(SHARED_FIRST, shared, daemon.nothing_shared))
        found.append(Way(SHARED_NEXT, shared, daemon.all_shared))
    room = Path(MEMORY).is_dir() and shutil.disk_usage(MEMORY).free
    if room and room > 2 * subject.size:
        found.append(Way(BY_TMPFS, replace(in_store, loader=TMPFS), daemon.key_at_hand))
    return found


def run(
    subject: Subject, daemon: Daemon, found: Sequence[Way], plan: Plan, watch: Watcher
) -> Outcome:
    """Measure.

    Raises:
        SealcarError: the plain model can't be loaded, or the daemon is gone.
    """

    def files() -> list[Path]:
        return [subject.model, *subject.files, *daemon.files()]

    place = Place(files, subject.size, daemon.pid)
    figures = rounds.measure(found, place, plan, watch)
    whose = "its own" if daemon.pid else "the one that runs"
    return Outcome(subject, tuple(figures), whose)
