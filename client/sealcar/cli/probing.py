"""One question to a daemon, as cheap as can be: an orchestrator asks it every few seconds.

It loads neither gRPC nor protobuf. What it sends never differs; of the answer it reads two fields.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    InvalidPackageError,
    LockedError,
    TimedOutError,
    UnavailableError,
)
from sealcar.onnxscan.wire import Kind, Span, WireReader
from sealcar.transfer.descriptors import PACKET
from sealcar.transfer.dialling import dial
from sealcar.transfer.location import Location

if TYPE_CHECKING:
    import socket
    from pathlib import Path

# ClientPacket with attest (protocol 1, release "sealcar-probe"), and one with state
_ATTEST: Final = b"\x0a\x11\x08\x01\x12\x0dsealcar-probe"
_STATE: Final = b"\x62\x00"
# fields of DaemonPacket and StateResponse
_ATTESTED: Final = 1
_ANSWERED: Final = 15
_SERVING: Final = 1
_LOCKED: Final = 7


def probe(directory: Path | None, timeout: float, *, ready: bool) -> None:
    """Return if a daemon serves.

    Args:
        directory: of its sockets, or None: as `sealcar.connect` finds it.
        timeout: seconds for all of it.
        ready: a locked one doesn't count.

    Raises:
        UnavailableError: nobody answers, or not as a daemon that serves.
        TimedOutError: nothing came in time.
        LockedError: it is locked.
        DeniedError: the socket's permissions keep this process out.
        ConfigurationError: nothing says where the daemon is, or whose it must be.
    """
    deadline = time.monotonic() + timeout
    sock = dial(Location.find(directory, None), deadline)
    with sock:
        _ask(sock, _ATTEST, _ATTESTED, deadline)
        state = _ask(sock, _STATE, _ANSWERED, deadline, (_SERVING, _LOCKED))
    if not state[_SERVING]:
        raise UnavailableError("the daemon is there but doesn't serve: it starts or drains")
    if ready and state[_LOCKED]:
        raise LockedError("the daemon is locked: nothing before `sealcar unlock`")


def _ask(
    sock: socket.socket, packet: bytes, wanted: int, deadline: float, fields: tuple[int, ...] = ()
) -> dict[int, int]:
    """Return these fields of the answer that is wanted."""
    try:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        sock.send(packet)
        said = sock.recv(PACKET)
        reader = WireReader(memoryview(said))
        span = reader.read(Span(0, len(said)), {wanted: Kind.BYTES}, "answer").span(wanted)
        if span is None:
            raise UnavailableError("the daemon answers something else than was asked")
        kinds = dict.fromkeys(fields, Kind.INT)
        found = reader.read(span, kinds, "answer")
        return {field: found.integer(field) for field in fields}
    except TimeoutError:
        raise TimedOutError("the daemon is silent") from None
    except (OSError, InvalidPackageError) as error:
        raise UnavailableError(f"the daemon doesn't answer as one does: {error}") from error
