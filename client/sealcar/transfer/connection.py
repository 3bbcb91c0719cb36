"""One connection to the data socket: attested, one request at a time, deadlines on every wait."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeVar

from google.protobuf.message import DecodeError

from sealcar import details, protocol, tracing
from sealcar._version import __version__
from sealcar.errors import SealcarError, TimedOutError, UnavailableError, WrongStateError
from sealcar.transfer.descriptors import close_all, wait_at_most
from sealcar.transfer.dialling import RETRY, NoSharedMemoryError, dial
from sealcar.transfer.memory import copy
from sealcar.transfer.packets import next_packet
from sealcar.transfer.rings import Rings, Slots
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.transfer.location import Location

_RINGS: Final = {"ring": False, "write_ring": True}
# so many slots keep the daemon busy for each that waits here to be given back
_BUSY: Final = 2
_Result = TypeVar("_Result")


class DataConnection:
    """Requests and answers, and the rings that belong to this connection.

    Attributes:
        delivery: how large payloads come and go.
        usable: another request may follow. False after a broken transfer or a transport failure.
        attested: what the daemon said about itself.
    """

    delivery: ClassVar[str] = "ring"

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._sock = sock
        self._pid = os.getpid()
        self._timeout = self._patience = timeout
        wait_at_most(sock, timeout)
        self._watch = select.poll()
        self._watch.register(sock, select.POLLIN)
        self._rings = Rings()
        self._handed: list[int] = []
        self.usable = True
        self.attested = pb.Attested()

    @classmethod
    def open(cls, location: Location, *, deadline: float, timeout: float) -> Self:
        """Connect, check who the daemon is, and attest.

        Args:
            location: where, and as whom.
            deadline: until when to wait for a daemon that isn't there yet (time.monotonic).
            timeout: seconds of silence after which a request fails.

        Raises:
            UnavailableError: no daemon by then, or one of another uid. Nothing was sent to it.
            DeniedError: the socket's permissions keep this process out.
            IncompatibleError: no common protocol; the message says which side to update.
            NoSharedMemoryError: this process may not receive what could carry descriptors.
        """
        hello = pb.Attest(protocol=protocol.PROTOCOL, release=f"sealcar-python {__version__}")
        while True:
            connection = cls(dial(location, deadline, stream=cls.delivery == "stream"), timeout)
            try:
                answer = connection.request(pb.ClientPacket(attest=hello), "attested")
                protocol.check_answer(answer.attested.protocol, answer.attested.release)
            except BaseException as error:
                connection.close()
                # one that is just going, or just coming
                passing = isinstance(error, UnavailableError)
                passing = passing and not isinstance(error, NoSharedMemoryError)
                if not passing or time.monotonic() + RETRY >= deadline:
                    raise
                time.sleep(RETRY)
            else:
                connection.attested = answer.attested
                return connection

    def request(
        self, packet: pb.ClientPacket, *wanted: str, patience: float | None = None
    ) -> pb.DaemonPacket:
        """Send a packet and return the answer, which is of a wanted kind.

        Raises:
            SealcarError: what the daemon answered instead.
            UnavailableError, TimedOutError: the connection is gone, or no answer came in time.
            WrongStateError: the connection was opened by another process.
        """
        self.check_process()
        packet.traceparent, packet.tracestate = tracing.where()
        try:
            self.send(packet)
            return self.answer(*wanted, patience=patience)
        except SealcarError:
            raise
        except BaseException:
            # interrupted: the answer that still comes would be taken for that of the next request
            self.usable = False
            raise

    def send(self, packet: pb.ClientPacket) -> None:
        """Send a packet.

        Raises:
            UnavailableError: the connection is gone.
            TimedOutError: the daemon took nothing in time.
        """
        self._sending(lambda: self._put(packet.SerializeToString()))

    def _sending(self, send: Callable[[], None]) -> None:
        try:
            send()
        except (TimeoutError, BlockingIOError):
            raise self._broken(TimedOutError("the daemon didn't take a packet in time")) from None
        except OSError as error:
            # it may have said why before it closed; that answer is still to be read
            with contextlib.suppress(UnavailableError, TimedOutError):
                self.answer(patience=RETRY)
            raise self._broken(UnavailableError(f"the daemon is gone: {error}")) from error

    def answer(self, *wanted: str, patience: float | None = None) -> pb.DaemonPacket:
        """Return the next packet; rings that come before it are mapped and acknowledged.

        Raises:
            SealcarError: what the daemon answered instead.
            UnavailableError: the connection is gone, or the daemon breaks the protocol.
            TimedOutError: nothing came in time.
        """
        while True:
            packet, descriptor = self._receive(patience or self._timeout)
            kind = packet.WhichOneof("packet") or "a packet that this release doesn't know"
            if kind in _RINGS and descriptor is not None:
                self._attach(packet, descriptor, writable=_RINGS[kind])
                continue
            if kind in _RINGS:
                raise self._broken(
                    NoSharedMemoryError("no descriptor came with a ring of the daemon's")
                )
            if kind == "segment" and kind in wanted and descriptor is not None:
                self._handed.append(descriptor)
                return packet
            if descriptor is not None:
                close_all([descriptor])
                raise self._broken(UnavailableError("the daemon sent a descriptor out of turn"))
            if kind == "error":
                raise details.from_detail(packet.error)
            if kind not in wanted:
                raise self._broken(UnavailableError(f"the daemon answered out of turn: {kind}"))
            return packet

    def ring(self, *, writable: bool) -> Slots:
        """Return the ring of one direction.

        Raises:
            UnavailableError: the daemon has handed none over.
        """
        found = self._rings.get(writable=writable)
        if found is None:
            raise self._broken(UnavailableError("the daemon handed no ring over"))
        return found

    def take(self, piece: pb.Piece, address: int) -> None:
        """Move a piece that was announced to its place, and let its slot be used again.

        The daemon hears of several at once, and has others to fill until then; `release` must
        follow the last piece.

        Raises:
            UnavailableError: it lies outside the ring, or the connection is gone.
            TimedOutError: nothing moved in time.
        """
        self.pass_on(piece, lambda lies: copy(address, lies, piece.size))

    def pass_on(self, piece: pb.Piece, put: Callable[[int], None]) -> None:
        """As `take`, with `put` to move it, which is told the address where it lies."""
        ring = self.ring(writable=False)
        put(ring.address(piece.slot, piece.size))
        ring.empty(piece.slot)
        self.release(at_least=max(1, ring.slots // _BUSY))

    def release(self, *, at_least: int = 1) -> None:
        """Tell the daemon which slots it may use again, if there are so many; raises as `send`."""
        ring = self._rings.get(writable=False)
        slots = ring.emptied(at_least=at_least) if ring else []
        if slots:
            self.send(pb.ClientPacket(free=pb.Free(slots=slots)))

    def hand_over(self, piece: pb.Piece) -> bool:
        """Announce a piece that lies in its slot of the ring that this side writes.

        Returns:
            Whether the slot may be used again at once.

        Raises:
            UnavailableError: the connection is gone.
            TimedOutError: the daemon took nothing in time.
        """
        self.send(pb.ClientPacket(piece=piece))
        return False

    def take_descriptor(self) -> int:
        """Return the descriptor that came with the last answer; the caller closes it.

        Raises:
            NoSharedMemoryError: none came.
        """
        if not self._handed:
            raise self._broken(NoSharedMemoryError("the daemon handed no segment over"))
        return self._handed.pop()

    @property
    def inherited(self) -> bool:
        """Whether this is a child of the process that connected, and so mustn't speak here."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Refuse to go on in a child of the process that connected.

        Raises:
            WrongStateError: this is a child.
        """
        if self.inherited:
            raise WrongStateError(
                "this transfer belongs to the parent process; begin a new one after fork"
            )

    def idle(self) -> bool:
        """Tell whether the daemon still holds the connection open and owes it nothing."""
        # anything that comes unasked is the daemon's farewell
        return self.usable and not self._watch.poll(0)

    def close(self) -> None:
        """Unmap the rings and close the socket. In a child this leaves the parent's untouched."""
        self.usable = False
        # in this order: the daemon counts their memory for as long as they are mapped
        self._rings.close()
        close_all(self._handed)
        self._handed.clear()
        self._sock.close()

    def _receive(self, patience: float) -> tuple[pb.DaemonPacket, int | None]:
        if patience != self._patience:
            self._patience = patience
            wait_at_most(self._sock, patience)
        data, descriptor = self._guarded(self._next)
        try:
            if not data:
                raise self._broken(UnavailableError("the daemon closed the connection"))
            return pb.DaemonPacket.FromString(data), descriptor
        except (DecodeError, UnavailableError) as error:
            close_all([] if descriptor is None else [descriptor])
            raise self._broken(UnavailableError(str(error))) from error

    def _put(self, message: bytes) -> None:
        self._sock.send(message, socket.MSG_NOSIGNAL)

    def _next(self) -> tuple[bytes, int | None]:
        """Return the next message and its descriptor; no bytes: the daemon has closed."""
        return next_packet(self._sock)

    def _guarded(self, receiving: Callable[[], _Result]) -> _Result:
        try:
            return receiving()
        except (TimeoutError, BlockingIOError):
            raise self._broken(
                TimedOutError(f"the daemon was silent for {self._patience:g} seconds")
            ) from None
        except OSError as error:
            raise self._broken(UnavailableError(f"the daemon is gone: {error}")) from error
        except UnavailableError as error:
            raise self._broken(error) from None

    def _attach(self, packet: pb.DaemonPacket, descriptor: int, *, writable: bool) -> None:
        announced = packet.write_ring if writable else packet.ring
        try:
            self._rings.attach(descriptor, announced, writable=writable)
        except UnavailableError as error:
            raise self._broken(error) from None
        self.send(pb.ClientPacket(ring_mapped=pb.RingMapped()))

    def _broken(self, error: UnavailableError | TimedOutError) -> UnavailableError | TimedOutError:
        self.usable = False
        if not self.inherited:
            # the daemon frees what it holds for us now, not when the pool gets to it
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        return error
