"""Who waits for which piece, and pieces in memory for which the cache had no room."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar_server.store.bucket.cached import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.errors import SealcarError
    from sealcar_server.store.bucket.bucket_file import BucketFile
    from sealcar_server.store.bucket.cached import Cached

_Piece: TypeAlias = "tuple[Cached, int]"
Calls: TypeAlias = "list[Callable[[], None]]"


class Arrivals:
    """Whoever calls it holds the lock of the cache. What it returns is called without.

    Args:
        most: bytes of pieces that may be in memory.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._waiting: dict[_Piece, dict[BucketFile, Callable[[], None]]] = {}
        self._coming: set[_Piece] = set()
        self._held: dict[_Piece, tuple[memoryview, set[BucketFile]]] = {}
        # of these, what nobody is about to read: the longest held first
        self._idle: dict[_Piece, None] = {}
        self._memory = 0

    def expect(self, file: BucketFile, index: int, then: Callable[[], None]) -> None:
        """Have this called when a piece is here, or won't be; one call of each file."""
        waiting = self._waiting.setdefault((file.cached, index), {})
        before = waiting.get(file)
        if before is None or before is nothing:
            waiting[file] = then
        else:
            waiting[file] = partial(_both, before, then)
        file.asked.add(index)

    def is_awaited(self, cached: Cached, index: int) -> bool:
        """Tell whether anybody waits for a piece."""
        return (cached, index) in self._waiting

    def is_coming(self, cached: Cached, index: int) -> bool:
        """Tell whether a piece is being fetched."""
        return (cached, index) in self._coming

    def take_memory(self, count: int, *, asked: bool) -> int:
        """Set memory aside for so many pieces; return for how many there is.

        Half of it is for those that somebody waits for: they are soon read, and others perhaps not.
        Of the latter what is in that half, too, makes room.
        """
        most = self._most if asked else self._most // 2
        while asked and self._memory + PIECE > most and len(self._idle) * PIECE > most // 2:
            self.drop(*next(iter(self._idle)))
        count = min(count, max(0, most - self._memory) // PIECE)
        self._memory += count * PIECE
        return count

    def begin(self, cached: Cached, first: int, count: int) -> None:
        """Note that pieces are being fetched."""
        self._coming.update((cached, index) for index in range(first, first + count))

    def come(self, cached: Cached, index: int) -> Calls:
        """Note that a piece is in the cache, or that it won't come."""
        self._coming.discard((cached, index))
        waiting = self._waiting.pop((cached, index), {})
        for file in waiting:
            file.asked.discard(index)
        return list(waiting.values())

    def hold(self, file: BucketFile, cached: Cached, index: int, data: memoryview) -> Calls:
        """Note that a piece is here, but not in the cache: it is kept while somebody needs it.

        Args:
            file: for which it was fetched, whether or not it waits for it.
            cached: the copy of its object.
            index: of it.
            data: what it is.
        """
        ahead = [] if file.over or file.cached is not cached else [file]
        waiting = self._waiting.get((cached, index), {})
        readers = {*waiting, *ahead}
        if readers:
            known, others = self._held.get((cached, index), (None, set()))
            self._memory += 0 if known else PIECE
            self._held[cached, index] = (data, readers | others)
            if all(call is nothing for call in waiting.values()):
                self._idle[cached, index] = None
            else:
                self._idle.pop((cached, index), None)
            for reader in readers:
                reader.holds.add(index)
        return self.come(cached, index)

    def pay(self, count: int) -> None:
        """Give memory back that was set aside for so many pieces."""
        self._memory -= count * PIECE

    def fail(self, cached: Cached, index: int, error: SealcarError) -> Calls:
        """Note why a piece won't come."""
        for file, call in self._waiting.get((cached, index), {}).items():
            # who only thought that it would be needed asks again
            if call is not nothing:
                file.errors[index] = copy.copy(error)
        return self.come(cached, index)

    def fail_all(self, error: SealcarError) -> Calls:
        """Let nobody wait any more."""
        return [call for piece in list(self._waiting) for call in self.fail(*piece, error)]

    def share(self, file: BucketFile, index: int) -> bool:
        """Let a file have a piece that is in memory; False: it isn't."""
        held = self._held.get((file.cached, index))
        if held is not None:
            held[1].add(file)
            file.holds.add(index)
            self._idle.pop((file.cached, index), None)
        return held is not None

    def held(self, file: BucketFile, index: int) -> memoryview | None:
        """Return a piece that is in memory for a file, which reads it now."""
        if index not in file.holds:
            return None
        self._idle[file.cached, index] = None
        return self._held[file.cached, index][0]

    def give_up(self, file: BucketFile, index: int) -> None:
        """Note that a file needs a piece in memory no longer; what nobody does isn't kept."""
        if index in file.holds:
            file.holds.discard(index)
            _, files = self._held[file.cached, index]
            files.discard(file)
            if not files:
                self._drop((file.cached, index))

    def drop(self, cached: Cached, index: int) -> None:
        """Have a piece in memory no longer, whoever needs it."""
        _, files = self._held.get((cached, index), (None, ()))
        for file in files:
            file.holds.discard(index)
        if files:
            self._drop((cached, index))

    def leave(self, file: BucketFile) -> None:
        """Do nothing more for a file."""
        for index in file.asked:
            waiting = self._waiting[file.cached, index]
            del waiting[file]
            if not waiting:
                del self._waiting[file.cached, index]
        file.asked.clear()
        for index in list(file.holds):
            self.give_up(file, index)

    def _drop(self, piece: _Piece) -> None:
        del self._held[piece]
        self._idle.pop(piece, None)
        self._memory -= PIECE


def nothing() -> None:
    """Be called when something is here that nobody waits for yet."""


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()
