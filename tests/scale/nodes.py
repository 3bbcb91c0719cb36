"""Daemons that serve the same store, each with a directory of its own: nodes of a cluster."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from bench.bulk import Bulk, publish
from support.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from scale.bucket import Bucket

_KEK: Final = "kek"
_STARTING: Final = 60.0


class Site(Protocol):
    """Where the store is."""

    def options(self) -> Sequence[str]:
        """Return what `sealcar init` is told."""

    def settings(self) -> Mapping[str, str]:
        """Return what a daemon has set besides."""

    def join(self, daemon: Daemon, first: Daemon) -> None:
        """Give a daemon that hasn't run yet the store that the first one made."""


class OnDisk:
    """Each node has all of it on its disk: what a bucket is compared with."""

    def options(self) -> Sequence[str]:
        """Return none."""
        return ()

    def settings(self) -> Mapping[str, str]:
        """Return none."""
        return {}

    def join(self, daemon: Daemon, first: Daemon) -> None:
        """Let it have a store of the same files."""
        shutil.rmtree(daemon.store)
        shutil.copytree(first.store, daemon.store, copy_function=os.link)


@dataclass(frozen=True)
class InBucket:
    """All nodes share a bucket.

    Attributes:
        bucket: which one.
        prefix: of the store in it.
        more: settings over the usual ones.
    """

    bucket: Bucket
    prefix: str
    more: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> Sequence[str]:
        """Return where it is."""
        return self.bucket.options(self.prefix)

    def settings(self) -> Mapping[str, str]:
        """Return what is other than usual."""
        return self.more

    def join(self, daemon: Daemon, first: Daemon) -> None:
        """Do nothing: it found the store where the first one made it."""


@dataclass(frozen=True)
class Contents:
    """What the package of all nodes has in it.

    Attributes:
        blobs: how many.
        size: bytes of each.
    """

    blobs: int
    size: int

    @property
    def bytes(self) -> int:
        return self.blobs * self.size

    def planned(self) -> Sequence[Bulk]:
        return [Bulk(f"weights-{number}", self.size) for number in range(self.blobs)]


class Cluster:
    """A store that is there, and daemons over it.

    Args:
        folder: an empty one.
        site: where the store is.
        contents: of the one package in it.
    """

    def __init__(self, folder: Path, site: Site, contents: Contents) -> None:
        self._folder, self.site, self.contents = folder, site, contents
        self._count = 0
        self._first = self._made("first")
        with self._first as daemon, daemon.connect(timeout=300) as client:
            publish(client, contents.planned())

    @contextmanager
    def nodes(self, count: int, *, running: bool = True) -> Iterator[list[Daemon]]:
        """Have so many daemons that have never read anything; they and what they keep then go."""
        self._count += 1
        names = [f"{self._count}-{number}" for number in range(count)]
        daemons = [self._joined(name) for name in names]
        try:
            with started(daemons if running else []):
                yield daemons
        finally:
            for name in names:
                shutil.rmtree(self._folder / name, ignore_errors=True)

    def _joined(self, name: str) -> Daemon:
        daemon = self._made(name, "--key-uri", f"file:{self._first.folder / _KEK}")
        self.site.join(daemon, self._first)
        return daemon

    def _made(self, name: str, *options: str) -> Daemon:
        (self._folder / name).mkdir()
        told = (*self.site.options(), *options)
        return Daemon(self._folder / name, settings=self.site.settings(), init=told)


@contextmanager
def started(daemons: Sequence[Daemon]) -> Iterator[None]:
    """Have daemons run, all started at once."""
    with ExitStack() as running:
        with ThreadPoolExecutor(len(daemons) or 1) as pool:
            # all of them are known before one that fails ends the others
            begun = [pool.submit(each.start, _STARTING) for each in daemons]
        for each in daemons:
            if each.process:
                running.enter_context(each)
        for one in begun:
            one.result()
        yield
