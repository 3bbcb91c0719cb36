"""How large payloads come and go: through memory that the daemon hands over, or over a stream."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError
from sealcar.transfer.connection import DataConnection
from sealcar.transfer.dialling import NoSharedMemoryError
from sealcar.transfer.stream_connection import StreamConnection
from sealcar.transfer.trying import try_handing_over

if TYPE_CHECKING:
    from sealcar.transfer.location import Location

AUTO: Final = "auto"
_WAYS: Final = {
    DataConnection.delivery: DataConnection,
    StreamConnection.delivery: StreamConnection,
}


class Delivery:
    """What one client does; once it has to use a stream it stays with it.

    Args:
        location: of the daemon's sockets.
        wanted: "ring", "stream", or "auto": a ring, and a stream where this process can't be
            handed memory. None: $SEALCAR_DELIVERY; without that, "auto".

    Attributes:
        way: the kind of connections to make.
        reason: why it isn't a ring where "auto" was wanted; else empty.

    Raises:
        ConfigurationError: there is no such way.
    """

    def __init__(self, location: Location, wanted: str | None = None) -> None:
        self._location = location
        wanted = wanted or os.environ.get("SEALCAR_DELIVERY") or AUTO
        if wanted != AUTO and wanted not in _WAYS:
            raise ConfigurationError(f"delivery is auto, ring or stream, not {wanted[:40]!a}")
        self._auto = wanted == AUTO
        self.way: type[DataConnection] = _WAYS.get(wanted, DataConnection)
        self.reason = ""

    @property
    def name(self) -> str:
        """Its name: "ring" or "stream"."""
        return self.way.delivery

    def look(self) -> None:
        """Use a stream from now on if a ring can't be had here, as far as one can tell alone."""
        if self._auto and self.way is DataConnection:
            try:
                try_handing_over()
            except NoSharedMemoryError as error:
                self.falls_back(error)

    def uses(self, connection: DataConnection) -> bool:
        """Tell whether a connection is of the kind that is used now."""
        return type(connection) is self.way

    def falls_back(self, error: NoSharedMemoryError) -> bool:
        """Use a stream from now on if that is allowed and there; tell whether it is worth trying.

        Args:
            error: that a ring met.
        """
        # a daemon of an older release has no such socket: what went wrong says more than that
        if not self._auto or not Path(self._location.flow).is_socket():
            return False
        if self.way is DataConnection:
            self.reason = error.message
            self.way = StreamConnection
        return True
