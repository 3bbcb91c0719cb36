"""Whatever is opened, read, damaged, failed and restarted: the cache stays within its bound, and
every byte that is read is the object's own and was fetched.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.far_objects import MIB, FarObjects, until

from sealcar.errors import StorageError, TruncatedError
from sealcar_server.store.bucket.cache import Cache
from sealcar_server.store.bucket.fetching import Fetcher
from sealcar_server.store.directory import Directory

if TYPE_CHECKING:
    from sealcar_server.store.bucket.bucket_file import BucketFile

SIZES = {"a": 5 * MIB + 3, "b": 3 * MIB, "c": 2 * MIB + 4096, "d": 1000, "e": MIB, "f": 1}
LIMITS = [0, 10_000, MIB, 3 * MIB + 50_000, 7 * MIB, 40 * MIB]


class CacheMachine(RuleBasedStateMachine):
    """One cache, restarted now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name) / "cache"
        self.folder.mkdir(mode=0o700)
        self.far = FarObjects()
        for key, size in SIZES.items():
            self.far.put(key, size)
        self.files: list[BucketFile] = []
        self.damaged: set[str] = set()

    @initialize(limit=st.sampled_from(LIMITS))
    def start(self, limit: int) -> None:
        self.limit = limit
        self.cache = Cache(Directory.open(self.folder), self.limit)
        self.fetcher = Fetcher(self.far, self.cache, patience=0.5, parallel=3)

    @rule(key=st.sampled_from(sorted(SIZES)))
    def open(self, key: str) -> None:
        if len(self.files) < 6:
            self.files.append(self.fetcher.open(key, *self.far.size(key)))

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(self.files))
        self.files.remove(file)
        file.close()

    @precondition(lambda self: self.files)
    @rule(data=st.data(), failing=st.booleans())
    def read(self, data: st.DataObject, failing: bool) -> None:  # noqa: FBT001  (drawn)
        file = data.draw(st.sampled_from(self.files))
        at = data.draw(st.integers(0, file.size() - 1))
        size = data.draw(st.integers(1, min(MIB + 5, file.size() - at)))
        self.far.fail(StorageError("the bucket can't be reached") if failing else None)
        try:
            self.check(file, at, size)
        except StorageError:
            assert failing
        finally:
            self.far.fail(None)

    def check(self, file: BucketFile, at: int, size: int) -> None:
        target = bytearray(size)
        try:
            file.read(memoryview(target), at)
            right = target == self.far.content(file.key)[at : at + size]
        except TruncatedError:
            right = False
        if not right:
            assert file.key in self.damaged
            file.doubt(at, size)
        asked = [(start, length) for key, start, length in self.far.asked if key == file.key]
        fetched = {
            index
            for start, length in asked
            for index in range(start // MIB, -(-(start + length) // MIB))
        }
        assert set(range(at // MIB, (at + size - 1) // MIB + 1)) <= fetched

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        """Ask for all of a file at once, as a ring does, and read it when it is here."""
        file = data.draw(st.sampled_from(self.files))
        come: list[int] = []
        asked = [
            index
            for index in range(file.cached.count)
            if not file.ready(index * MIB, MIB, partial(come.append, index), "somebody")
        ]
        until(lambda: len(come) == len(asked))
        assert sorted(come) == asked, "each was called once"
        for index in range(file.cached.count):
            at = index * MIB
            assert file.ready(at, MIB, come.clear)
            self.check(file, at, min(MIB, file.size() - at))

    @rule(
        which=st.integers(0, 5),
        where=st.floats(0, 1, exclude_max=True),
        how=st.sampled_from(["write", "cut", "remove"]),
    )
    def damage(self, which: int, where: float, how: str) -> None:
        """Somebody writes into a file, cuts or removes it."""
        paths = sorted(self.folder.iterdir())
        if not paths:
            return
        # what there is depends on threads: so nothing is drawn from it
        path = paths[which % len(paths)]
        at = int(where * path.stat().st_size)
        self.damaged |= set(SIZES)
        if how == "remove":
            path.unlink()
            return
        with path.open("r+b") as file:
            if how == "cut":
                file.truncate(at)
            else:
                file.seek(at)
                file.write(b"damage")

    @rule(limit=st.sampled_from(LIMITS))
    def restart(self, limit: int) -> None:
        for file in self.files:
            file.close()
        self.files.clear()
        self.fetcher.close()
        self.start(limit)

    @precondition(lambda self: hasattr(self, "cache"))
    @invariant()
    def it_is_within_its_bound(self) -> None:
        until(lambda: not self.fetcher._arrivals._coming and not self.fetcher._choosing._asked)
        with self.cache.lock:
            assert 0 <= self.cache.used <= self.limit
            if not self.damaged:
                assert self.cache.used == sum(
                    one.room for one in self.cache._objects.values() if one.placed
                )
                taken = sum(path.stat().st_blocks * 512 for path in self.folder.iterdir())
                assert taken <= self.cache.used

    def teardown(self) -> None:
        for file in self.files:
            file.close()
        if not hasattr(self, "cache"):
            return
        until(lambda: self.fetcher._arrivals._memory == 0)
        self.fetcher.close()
        self._temporary.cleanup()


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
