"""The way to a daemon by TCP: mutual TLS, with certificates out of files that may be replaced."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc

from sealcar import errors
from sealcar.names import shown
from sealcar.rpc import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

_MOST: Final = 1 << 20
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
_OTHERS: Final = 0o077
_GROUP_READS: Final = 0o040


@dataclass(frozen=True)
class TlsLine:
    """A port of the daemon. Whoever answers there must have a certificate for that host.

    Attributes:
        address: HOST:PORT.
        ca: file, PEM: who signs the daemon's certificate. No other authority is trusted.
        certificate: file, PEM: this caller's own certificate, and those that it hangs on.
        key: file, PEM: its private key, which nobody else may read.
        server_name: that the daemon's certificate is for, if it isn't the address's host.
    """

    address: str
    ca: Path
    certificate: Path
    key: Path
    server_name: str = ""

    def open(self, timeout: float) -> grpc.Channel:  # noqa: ARG002  (a line's; gRPC connects later)
        """Return a channel to that port.

        Raises:
            ConfigurationError: the address is none, a file can't be read, or others can read the
                key.
        """
        if not _ADDRESS.fullmatch(self.address):
            raise errors.ConfigurationError(
                f"{shown(self.address)} is no address of a daemon; write it as HOST:PORT"
            )
        credentials = grpc.ssl_channel_credentials(
            _read(self.ca), _read(self.key, private=True), _read(self.certificate)
        )
        named = (("grpc.ssl_target_name_override", self.server_name),) if self.server_name else ()
        target = f"dns:///{self.address}"
        return grpc.secure_channel(target, credentials, options=(*OPTIONS, *named))

    def state(self) -> Hashable:
        """Return what changes when one of the files is replaced."""
        return tuple(_signature(path) for path in (self.ca, self.certificate, self.key))

    def unreachable(self, reason: str) -> errors.UnavailableError:
        """Say that no daemon answers, and what to do about it."""
        return errors.UnavailableError(
            f"no daemon answers at {self.address} over mutual TLS ({reason}); its certificate must"
            " be for that host, and signed by the authority given; it must know who signed ours,"
            " and neither may have expired",
            retry_after=1.0,
        )


def _read(path: Path, *, private: bool = False) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(_MOST + 1)
    except OSError as error:
        raise errors.ConfigurationError(f"{path}: {error.strerror}") from error
    # a mounted secret belongs to root, and is read by its group
    allowed = _GROUP_READS if status.st_uid == 0 != os.geteuid() else 0
    if private and stat.S_IMODE(status.st_mode) & _OTHERS & ~allowed:
        raise errors.ConfigurationError(f"{path}: others can read or change this key: chmod 600 it")
    if len(content) > _MOST or b"-----BEGIN " not in content:
        raise errors.ConfigurationError(f"{path} holds no PEM")
    return content


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
