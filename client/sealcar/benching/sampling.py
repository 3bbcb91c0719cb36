"""One load, from outside: the same beginning for every way, and what its processes needed."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sealcar.benching import caches, usage
from sealcar.benching.children import Child
from sealcar.benching.jobs import PAYLOADS, READY
from sealcar.benching.watching import Closes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sealcar.benching.jobs import Job, Told
    from sealcar.benching.usage import Counters, Memory

CLIENT: Final = "client"
DAEMON: Final = "daemon"
# sizes of a model: in the page cache, its weights, what is packed of them, and as much again
_TOUCHED: Final = 6
_NOISE: Final = 0.06
# a core's clock ticks a hundred times a second
_CLOCK: Final = 0.011
_AT_THE_LATEST: Final = (
    "the runtime or provider read or mapped them by itself: counted when the session was ready"
)


@dataclass(frozen=True)
class Way:
    """One way to a session.

    Attributes:
        name: for people.
        job: what a process is told.
        before: brings the daemon to where a load begins: what is decrypted and shared already.
        path: of modules that only its loader needs.
        files: that only it reads.
    """

    name: str
    job: Job
    before: Callable[[], None] | None = field(default=None, repr=False)
    path: str = ""
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Place:
    """What ways have in common.

    Attributes:
        files: what is read, plain and sealed: what the page cache is to have, or not.
        size: of the model with all that belongs to it.
        daemon: its process; None: somebody else's.
    """

    files: Callable[[], list[Path]]
    size: int
    daemon: int | None


@dataclass(frozen=True)
class Sample:
    """One load.

    Attributes:
        told: by its process.
        calm: nobody else used more than 6 % of a core.
        prepared: seconds that its process took to start, import everything and register a plugin.
        stayed: the largest part of a file that was in the page cache at the beginning.
        counters, memory: by role. Memory only where it was looked at: at the beginning, and the
            most.
    """

    told: Told
    calm: bool
    prepared: float
    stayed: float
    counters: Mapping[str, Counters]
    memory: Mapping[str, tuple[Memory, Memory]]


def sample(way: Way, place: Place, *, cold: bool = False, watched: bool = False) -> Sample:
    """Load once.

    Args:
        way: how.
        place: where.
        cold: with nothing of the files in the page cache.
        watched: look at the memory all the time, which takes time.

    Raises:
        SealcarError: it can't be loaded.
    """
    started = time.monotonic()
    with Child(way.job, way.path) as child:
        child.prepare()
        prepared = time.monotonic() - started
        stayed = _settle(way, place, cold=cold)
        pids = {CLIENT: child.pid} | ({DAEMON: place.daemon} if place.daemon else {})
        before = {role: usage.counters(pid) for role, pid in pids.items()}
        idle = {role: usage.memory(pid) for role, pid in pids.items()} if watched else {}
        busy, began = usage.busy_seconds(), time.monotonic()
        peaks = usage.Peaks(pids)
        with Closes(way.job.files) as closes, peaks if watched else nullcontext():
            told = child.load()
        took = time.monotonic() - began
        busy = usage.busy_seconds() - busy
        spent = {role: usage.counters(pid).since(before[role]) for role, pid in pids.items()}
        calm = busy - sum(each.busy for each in spent.values()) <= _NOISE * took + _CLOCK
        if watched:
            peaks.look()
    memory = {
        role: (now, peaks.found[role])
        for role, now in idle.items()
        if now is not None and role in peaks.found
    }
    told = _with_payloads(told, way.job, closes, spent[CLIENT])
    return Sample(told, calm, prepared, stayed, spent, memory)


def _settle(way: Way, place: Place, *, cold: bool) -> float:
    """Bring page cache, daemon and free memory to where every load begins."""
    if way.before is not None:
        way.before()
    files = [*place.files(), *way.files]
    stayed = 1.0
    if cold:
        stayed = caches.drop(files)
    else:
        caches.warm(files)
    caches.touch_free_memory(_TOUCHED * place.size)
    return stayed


def _with_payloads(told: Told, job: Job, closes: Closes, spent: Counters) -> Told:
    """Add when payloads were available that the process itself couldn't see."""
    if PAYLOADS in told.moments or not job.beside:
        return told
    closed = closes.complete
    read = sum(closes.sizes.values())
    if closed is not None and spent.logical_read is not None and spent.logical_read >= read:
        return replace(told, moments={**told.moments, PAYLOADS: closed - told.begun})
    return replace(
        told,
        moments={**told.moments, PAYLOADS: told.moments[READY]},
        unseen={**told.unseen, PAYLOADS: _AT_THE_LATEST},
    )
