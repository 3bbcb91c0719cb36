"""All doors, as an operator's lock sees them: transfers to end, and who was handed plaintext."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sealcar_server.service.holding import Holder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sealcar_server.access.sessions import Sessions
    from sealcar_server.endpoints.data_socket import DataSocket
    from sealcar_server.endpoints.grpc_server import GrpcServer
    from sealcar_server.endpoints.grpc_streams import Streams

_PATIENCE: Final = 1.0  # seconds for a call to say itself why it ends
_LONGEST: Final = 10.0
_STEP: Final = 0.02


class Doors:
    """See `sealcar_server.service.holding.Doors`."""

    def __init__(
        self,
        data: DataSocket,
        sessions: Sessions,
        streams: Sequence[Streams],
        servers: Sequence[GrpcServer],
        *,
        unlocked: Callable[[], None] = lambda: None,
    ) -> None:
        self._unlocked = unlocked
        self._data, self._sessions = data, sessions
        self._streams, self._servers = streams, servers

    def check_permits(self) -> None:
        """End the transfers whose permits have fallen; gRPC's see to it before their next piece."""
        self._data.policy_changed()
        self._data.drop_segments()

    def end_transfers(self) -> None:
        """End all transfers, whose permits have fallen, and return when they have ended.

        Calls that wait for their clients can't say why they end: those are cancelled.
        """
        begun = time.monotonic()
        while self._data.transfers() or any(streams.count() for streams in self._streams):
            waited = time.monotonic() - begun
            if waited > _LONGEST:
                return
            self._data.policy_changed()
            if waited > _PATIENCE:
                for streams in self._streams:
                    streams.cancel()
            time.sleep(_STEP)
        # what was being opened meanwhile finds its permit fallen
        self._data.policy_changed()
        self._data.drop_segments()

    def holders(self) -> list[Holder]:
        """Return the sessions that were handed plaintext.

        Those that have ended are among them as long as a segment of theirs is in use: only the
        kernel knows by whom.
        """
        connected = [one for one in self._sessions.connected() if one.received]
        found = {one.id: one for one in [*connected, *self._data.segment_holders()]}
        return [Holder(one.id, one.principal, one.pid) for one in found.values()]

    def report(self, *, locked: bool) -> None:
        """Let gRPC health say whether payloads can be read: one that can't isn't ready.

        Who waits for an unlocking hears of it.
        """
        for server in self._servers:
            server.serve(serving=not locked)
        if not locked:
            self._unlocked()
