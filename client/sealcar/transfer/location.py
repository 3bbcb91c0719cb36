"""Where the daemon listens, and which uid it must have."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from sealcar.errors import ConfigurationError
from sealcar.transfer.owners import owner_of

_SYSTEM: Final = Path("/run/sealcar/default")
LONGEST: Final = 107  # bytes of a Unix socket's path
_DIGITS: Final = 10  # of the largest uid


@dataclass(frozen=True)
class Location:
    """A listener's directory and the uid that its daemon must have.

    Attributes:
        directory: holds data.sock, flow.sock and grpc.sock.
        peer_uid: None: the owner of the directory, found when connecting.
    """

    directory: Path
    peer_uid: int | None

    @classmethod
    def find(cls, socket: str | Path | None, peer_uid: int | None) -> Self:
        """Fill in what isn't given from the environment and the defaults.

        Raises:
            ConfigurationError: nothing says where the daemon is, or a setting is malformed.
        """
        directory = _directory(socket)
        try:
            path = os.fsencode(directory / "data.sock")
        except UnicodeEncodeError:
            path = b"\0"
        if b"\0" in path:
            raise ConfigurationError(f"{str(directory)!a} is the path of no directory")
        length = len(path)
        if length > LONGEST:
            raise ConfigurationError(
                f"the path of the data socket below {directory} has {length} bytes;"
                f" a Unix socket's path can have {LONGEST}: choose a shorter directory"
            )
        return cls(directory, _environment_uid() if peer_uid is None else peer_uid)

    @property
    def flow(self) -> str:
        """Path of the data socket for those who can't be handed memory."""
        return str(self.directory / "flow.sock")

    @property
    def data(self) -> str:
        """Path of the data socket."""
        return str(self.directory / "data.sock")

    def expected_uid(self) -> int:
        """Return the uid that the daemon must have.

        Raises:
            ConfigurationError: others could have put the directory there: its owner says nothing.
            UnavailableError: there is no such directory.
        """
        if self.peer_uid is not None:
            return self.peer_uid
        return owner_of(self.directory)


def _directory(given: str | Path | None) -> Path:
    if given is None:
        given = os.environ.get("SEALCAR_SOCKET") or None
    if given is not None:
        return Path(given).absolute()
    if _SYSTEM.is_dir():
        return _SYSTEM
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime, "sealcar", "default")
    raise ConfigurationError(
        f"where is the daemon? Give the listener's directory, or set $SEALCAR_SOCKET;"
        f" {_SYSTEM} doesn't exist and $XDG_RUNTIME_DIR isn't set"
    )


def _environment_uid() -> int | None:
    text = os.environ.get("SEALCAR_PEER_UID")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise ConfigurationError("$SEALCAR_PEER_UID must be a uid in decimal digits")
    return int(text)
