"""A whole payload in memory that the daemon shares among its readers, and that nobody can write."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final, TypeVar

from sealcar.errors import InvalidNameError, UnavailableError, WrongStateError
from sealcar.transfer.descriptors import FIXED_SIZE, Exported, Seal, seals_of
from sealcar.transfer.populating import Populating
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.transfer.connection import DataConnection
    from sealcar.v1 import common_pb2

_UNCHANGEABLE: Final = FIXED_SIZE | Seal.WRITE
_Form = TypeVar("_Form")


class SegmentMemory:
    """A segment, mapped for reading; children of fork have it too.

    Args:
        descriptor: stays the caller's.
        size: of the payload.

    Attributes:
        size: of the payload.
        address: of its first byte.

    Raises:
        UnavailableError: somebody could still change it, or its size isn't the payload's.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        check_unchangeable(descriptor, size)
        try:
            self._map = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"the daemon's segment can't be mapped: {error}") from error
        self._map.madvise(mmap.MADV_DONTDUMP)
        with Exported(self._map) as whole:
            self.address = whole.address
        self.size = size
        self._ahead = Populating(self._map, self.address)

    def view(self) -> memoryview:
        """Return a read-only view; the memory can't be closed while it or a part of it lives."""
        return memoryview(self._map)

    def close(self) -> None:
        """Unmap: the daemon counts it until the last process has.

        Raises:
            WrongStateError: somebody still holds a view.
        """
        self._ahead.end()
        try:
            self._map.close()
        except BufferError:
            raise WrongStateError(
                "a mapped payload can't be closed while views of it live"
            ) from None


def check_unchangeable(descriptor: int, size: int) -> None:
    """Check that a segment is of the payload's size, and that nobody can change it any more.

    Raises:
        UnavailableError: it isn't, or somebody can.
    """
    # nobody can take these back: so nothing that is checked here changes afterwards, and touching
    # the memory never raises SIGBUS
    if seals_of(descriptor) & _UNCHANGEABLE != _UNCHANGEABLE:
        raise UnavailableError("the daemon's segment can still be changed; not mapped")
    if not size or os.fstat(descriptor).st_size != size:
        raise UnavailableError("the daemon's segment hasn't the size of the payload")


def receive_segment(
    connection: DataConnection,
    scope: common_pb2.Scope,
    name: str,
    size: int,
    form: Callable[[int, int], _Form],
) -> _Form:
    """Ask for a segment, and hold it.

    Args:
        connection: to ask on.
        scope: that the payload is in.
        name: of the payload.
        size: of the payload.
        form: what holds it: of a descriptor, which stays the caller's, and the size.

    Raises:
        SealcarError: what the daemon answered instead, or what is wrong with its answer.
    """
    try:
        request = pb.SegmentRequest(scope=scope, name=name)
    except (TypeError, ValueError) as error:
        raise InvalidNameError(f"not a payload's name: {error}") from None
    answer = connection.request(pb.ClientPacket(segment=request), "segment", "filling")
    try:
        while answer.WhichOneof("packet") == "filling":
            answer = connection.answer("segment", "filling")
        descriptor = connection.take_descriptor()
        try:
            memory = form(descriptor, size)
        finally:
            os.close(descriptor)
        connection.send(pb.ClientPacket(segment_received=pb.SegmentReceived()))
    except BaseException:
        # something of this request may still be under way
        connection.usable = False
        raise
    return memory
