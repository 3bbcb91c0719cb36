"""The line to a client that can't be handed memory: the same messages, over a byte stream.

To the connection it is a line like the other one, with a client that has a ring: the ring is the
daemon's alone here, and what the client would do with it, the line does: a slot comes back when its
bytes are sent, and a piece is announced when its bytes have come.
"""

from __future__ import annotations

import contextlib
import select
import socket as sockets
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from sealcar.errors import UnavailableError
from sealcar.v1 import data_socket_pb2 as pb
from sealcar_server.endpoints.stream_in import Inflow
from sealcar_server.endpoints.stream_out import Outflow
from sealcar_server.transfer.rings import Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.endpoints.data_packets import OneSender
    from sealcar_server.endpoints.stream_mover import Mover
    from sealcar_server.transfer.metering import Meter

_TURN: Final = 4  # packets, before another stream has its turn
_OF_TRANSFERS: Final = frozenset({"piece", "free"})  # no more of them than slots
_ENDS: Final = frozenset({"written", "error"})


class StreamLine:
    """Owns the socket. `receive` and what begins and ends it are for the data socket's thread.

    Args:
        sock: accepted.
        sender: who alone may send here; owned too.
        meter: told of senders that are somebody else.
        mover: whose thread moves the bytes.
    """

    delivery: Final = "stream"

    def __init__(self, sock: sockets.socket, sender: OneSender, meter: Meter, mover: Mover) -> None:
        self._sock, self._mover = sock, mover
        self._sender = sender
        self._in = Inflow(sock, sender, meter)
        self._out = Outflow(sock, self._give_back)
        self._arrived: deque[pb.ClientPacket | Exception | None] = deque()
        self._deliver: Callable[[], None] = lambda: None
        self._read_ring: Ring | None = None
        self._write_ring: Ring | None = None
        self._asked = self._ended = self._closed = False
        self._moving, self._arming = threading.Lock(), threading.Lock()

    def begin(self, owner: Hashable, deliver: Callable[[], None]) -> None:
        """Move bytes from now on; `deliver` is called for each packet that can be received."""
        self._deliver = deliver
        self._mover.add(self._sock.fileno(), owner, self._move)
        self._arm()

    def has_ring(self, *, client_writes: bool, slots: int) -> bool:  # noqa: ARG002  (as `Line`)
        """Tell whether a ring for so many segments is made already: never."""
        return False

    def ring(self, *, client_writes: bool, slots: int) -> Ring:
        """Return a ring for this client, which hears nothing of it; ExhaustedError."""
        ring = Ring(client_writes=client_writes, slots=slots, shared=False)
        if client_writes:
            self._write_ring = ring
        else:
            self._read_ring = ring
        return ring

    def receive(self) -> pb.ClientPacket | None:
        """Return the next message; None: the client has closed.

        Raises:
            DeniedError: another process sent it, or it brought descriptors.
            InvalidRequestError: it is over the limit, or no message.
            ViolationError: it isn't its turn.
            BlockingIOError: none has arrived.
            OSError: the connection is broken.
            Exception: whatever else went wrong while it was moved.
        """
        if not self._arrived:
            raise BlockingIOError
        arrived = self._arrived.popleft()
        if isinstance(arrived, Exception):
            raise arrived
        if arrived is not None and arrived.WhichOneof("packet") not in _OF_TRANSFERS:
            self._asked = False
            self._arm()
        return arrived

    def send(self, packet: pb.DaemonPacket, descriptor: int | None = None) -> None:
        """Send one message, and a piece's bytes behind it. From any thread.

        Raises:
            UnavailableError: the client is gone, or hasn't received what was sent before.
        """
        if descriptor is not None:
            raise UnavailableError("a stream carries no descriptors")
        kind = packet.WhichOneof("packet")
        if kind == "free":
            for slot in packet.free.slots:
                self._in.free(slot)
        elif kind == "piece":
            self._send_piece(packet.piece)
        else:
            self._say(packet, kind)
        self._arm()

    def hang_up(self) -> None:
        """Let nothing more through; the client still receives what was sent."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(sockets.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket: no byte is moved any more when this returns."""
        # in both: who arms the socket's number later would arm another one's
        with self._moving, self._arming:
            self._closed = True
            self._mover.remove(self._sock.fileno())
            self._in.clear()
            self._out.clear()
            self._sender.close()
            self._sock.close()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._sock.fileno()

    def _say(self, packet: pb.DaemonPacket, kind: str | None) -> None:
        if kind == "writing" and self._write_ring is not None:
            self._in.begin(self._write_ring)
        elif kind in _ENDS:
            self._in.end()
        if kind == "error":
            # also what a lock or a lost right ends: nothing gets out after it
            self._out.drop_pieces()
        self._out.put(packet.SerializeToString())
        try:
            self._out.push()
        except OSError as error:
            raise UnavailableError("the client is gone") from error

    def _send_piece(self, piece: pb.Piece) -> None:
        if self._read_ring is None:
            raise UnavailableError("there is no ring")
        announced = pb.DaemonPacket(piece=pb.Piece(offset=piece.offset, size=piece.size))
        data = self._read_ring.room(piece.slot, piece.size)
        self._out.put(announced.SerializeToString(), data, slot=piece.slot)

    def _give_back(self, slot: int) -> None:
        self._arrive(pb.ClientPacket(free=pb.Free(slots=[slot])))

    def _arrive(self, what: pb.ClientPacket | Exception | None) -> None:
        self._arrived.append(what)
        self._deliver()

    def _move(self) -> None:
        """Send and receive what can be. On the mover's thread."""
        with self._moving:
            if self._closed:
                return
            try:
                self._out.push()
                for _ in range(_TURN):
                    if not self._reads():
                        break
                    packet = self._in.next()
                    self._asked = packet.WhichOneof("packet") not in _OF_TRANSFERS
                    self._arrive(packet)
            except BlockingIOError:
                pass
            except EOFError:
                self._end(None)
            except Exception as error:  # noqa: BLE001  (whoever receives raises it again)
                self._end(error)
            self._arm()

    def _end(self, reason: Exception | None) -> None:
        self._ended = True
        self._arrive(reason)

    def _reads(self) -> bool:
        # one question at a time: what a client asks beyond it stays in the socket
        return not self._asked and not self._in.blocked

    def _arm(self) -> None:
        with self._arming:
            events = select.EPOLLIN if self._reads() else 0
            events |= select.EPOLLOUT if self._out.waiting else 0
            if events and not self._ended and not self._closed:
                self._mover.arm(self._sock.fileno(), events)
