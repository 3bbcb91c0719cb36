"""The local copy of one object, whole or in part: a file of ciphertext, and which of it is there.

    0     magic, and the size of the object
    16    one byte for each piece: 1 if it is there
    ...   from the next 4096 on the object's bytes, with holes where nothing is

The map is written after what it speaks of, and nothing is made durable: what a crash leaves wrong
isn't authentic, and is fetched again.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

from sealcar.errors import NotAuthenticError, WrongStateError
from sealcar_server.sealing.layout import SEGMENT

if TYPE_CHECKING:
    from sealcar_server.sealing.descriptor import Descriptor

# a segment of a sealed payload is in exactly one piece
PIECE: Final = SEGMENT
_HEAD: Final = struct.Struct("<8sQ")
_MAGIC: Final = b"sealcar1"
_BLOCK: Final = 4096
# what a file takes besides, for the extents of a file with holes
_EXTENTS: Final = 8192
# more than any service takes for one object
_LARGEST: Final = 64 << 40
# states of a piece
NONE, THERE, TAKEN = 0, 1, 2


class Cached:
    """One object. Whoever changes its state holds the lock of the cache.

    Args:
        name: of the file.
        size: of the object.
        etag: of the object; empty until somebody opens it.

    Attributes:
        count: how many pieces it has.
        state: of each piece: NONE, THERE, or TAKEN: it has room in the file, and isn't there.
        placed: there is a file for it.
        users: how many read it or write to it.
        file: lends the descriptor while somebody does; None: there is no room even for a file.
        extra: bytes that the file takes besides its pieces.
    """

    def __init__(self, name: str, size: int, etag: str = "") -> None:
        self.name, self.size, self.etag = name, size, etag
        self.count: Final = max(1, -(-size // PIECE))
        self.start: Final = blocks(_HEAD.size + self.count)
        self.state = bytearray(self.count)
        self.placed = False
        self.users = 0
        self.file: Descriptor | None = None
        self.extra = self.start + _EXTENTS

    @property
    def whole(self) -> bool:
        """Whether all of it is there."""
        return self.state.count(THERE) == self.count

    @property
    def room(self) -> int:
        """Bytes of disk that it takes, or that are set aside for it."""
        taken = (self.count - self.state.count(NONE)) * PIECE
        if self.state[-1]:
            taken -= PIECE - self.cost(self.count - 1)
        return self.extra + taken

    def length(self, index: int) -> int:
        """Return how many bytes a piece has."""
        return min(PIECE, self.size - index * PIECE)

    def cost(self, index: int) -> int:
        """Return how many bytes of disk a piece takes."""
        return blocks(self.length(index))

    def begin(self, fd: int) -> None:
        """Write the head of a new file; OSError as pwrite does."""
        os.ftruncate(fd, self.start)
        put(fd, _HEAD.pack(_MAGIC, self.size), 0)

    def adopt(self, fd: int) -> None:
        """Take over what a file of this object has that was there before; OSError as pread does."""
        self.placed = True
        found = os.pread(fd, self.count, _HEAD.size)
        status = os.fstat(fd)
        whole = (status.st_size - self.start) // PIECE
        if status.st_size >= self.start + self.size:
            whole = self.count
        for index, byte in enumerate(found[: max(0, whole)]):
            self.state[index] = THERE if byte == THERE else NONE
        # a piece that was being written has its room already
        self.extra += max(0, status.st_blocks * 512 - self.room)

    def clear(self) -> None:
        """Note that there is no file any more."""
        self.placed = False
        self.state = bytearray(self.count)
        self.extra = self.start + _EXTENTS

    def write(self, first: int, data: memoryview) -> None:
        """Write pieces that came one after the other; OSError as pwrite does."""
        with self._open() as fd:
            put(fd, data, self.start + first * PIECE)
            put(fd, bytes([THERE]) * -(-len(data) // PIECE), _HEAD.size + first)

    def read(self, target: memoryview, at: int) -> bool:
        """Fill `target` with bytes of the object; False: the file is too short.

        OSError as preadv does.
        """
        with self._open() as fd:
            done = 0
            while done < len(target):
                got = os.preadv(fd, [target[done:] if done else target], self.start + at + done)
                if got == 0:
                    return False
                done += got
        return True

    def forget(self, index: int) -> None:
        """Have a piece no longer; its room stays taken."""
        if self.state[index] == THERE:
            self.state[index] = TAKEN
            with self._open() as fd:
                put(fd, bytes([NONE]), _HEAD.size + index)

    def drop_from(self, fd: int, first: int) -> None:
        """Have nothing any more from a piece on, nor room for it; OSError as ftruncate does."""
        put(fd, bytes(self.count - first), _HEAD.size + first)
        os.ftruncate(fd, self.start + first * PIECE)
        self.state[first:] = bytes(self.count - first)

    def _open(self) -> Descriptor:
        if self.file is None:
            raise WrongStateError("the sealed file is closed")
        return self.file


def require_possible(size: int) -> None:
    """Refuse a size that a bucket may tell and no object has: each piece takes memory.

    Raises:
        NotAuthenticError: it is too large.
    """
    if size > _LARGEST:
        raise NotAuthenticError(
            f"the bucket says that a payload has {size} bytes: none is so large"
        )


def size_in(fd: int) -> int | None:
    """Return the size of the object that a file is of; None: it isn't whole enough to be one's."""
    head = os.pread(fd, _HEAD.size, 0)
    if len(head) != _HEAD.size:
        return None
    magic, size = _HEAD.unpack(head)
    whole = blocks(_HEAD.size + size // PIECE) <= os.fstat(fd).st_size
    return int(size) if magic == _MAGIC and whole else None


def blocks(size: int) -> int:
    """Return how much disk so many bytes take."""
    return -(-size // _BLOCK) * _BLOCK


def put(fd: int, data: bytes | memoryview, at: int) -> None:
    """Write all of it at an offset; OSError as pwrite does."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], at + done)
