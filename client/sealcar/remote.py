"""A daemon on another machine: its catalogue, and payloads as streams, over mutual TLS.

    client = sealcar.connect_remote("models.example.org:7443", ca=…, certificate=…, key=…)
    data = client.scope("ocr", "det", "onnx").read("model.onnx")

What goes over a network is copied more often than what is shared on one machine: run a daemon
beside whoever loads models, and use this to manage a store and to move packages.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar import rpc
from sealcar.any_client import AnyClient
from sealcar.catalogue import Catalogue
from sealcar.errors import ConfigurationError
from sealcar.tls_line import TlsLine
from sealcar.transfer.streams import RemoteScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.transfer.scopes import ScopeName

_VARIABLES: Mapping[str, str] = {
    "address": "SEALCAR_REMOTE",
    "ca": "SEALCAR_TLS_CA",
    "certificate": "SEALCAR_TLS_CERT",
    "key": "SEALCAR_TLS_KEY",
}


class RemoteClient(AnyClient[RemoteScope]):
    """A daemon that is reached over TCP, for any number of threads; not after a fork.

    Args:
        line: to the daemon.
        timeout: seconds for one answer, and between two messages of a stream.
    """

    def __init__(self, line: TlsLine, *, timeout: float) -> None:
        self._rpc = rpc.Channel(line, timeout=timeout)
        self._catalogue = Catalogue(self._rpc)

    @property
    def catalogue(self) -> Catalogue:
        """What the store holds, and how packages get there."""
        return self._catalogue

    def close(self) -> None:
        """Close the connection; calls under way end."""
        self._rpc.close()

    def _scope(
        self, name: ScopeName, whole: Callable[[ScopeName], ScopeName] | None
    ) -> RemoteScope:
        return RemoteScope(self._rpc, name, whole)


def connect_remote(
    address: str | None = None,
    *,
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    server_name: str | None = None,
    timeout: float = 30.0,
) -> RemoteClient:
    """Return a client of a daemon that serves mutual TLS; it connects when it is first used.

    Files are read again when they were replaced: a new certificate needs no new client.

    Args:
        address: HOST:PORT. Default: $SEALCAR_REMOTE.
        ca: file, PEM: who signs the daemon's certificate. Default: $SEALCAR_TLS_CA.
        certificate: file, PEM: the caller's own. Default: $SEALCAR_TLS_CERT.
        key: file, PEM: its private key. Default: $SEALCAR_TLS_KEY.
        server_name: that the daemon's certificate is for. Default: $SEALCAR_TLS_SERVER_NAME, else
            the address's host.
        timeout: seconds for one answer, and between two messages of a stream.

    Raises:
        ConfigurationError: something is missing.
    """
    given = {"address": address, "ca": ca, "certificate": certificate, "key": key}
    whole = {name: str(value or _environment(name)) for name, value in given.items()}
    if server_name is None:
        server_name = os.environ.get("SEALCAR_TLS_SERVER_NAME", "")
    line = TlsLine(
        whole["address"],
        Path(whole["ca"]),
        Path(whole["certificate"]),
        Path(whole["key"]),
        server_name,
    )
    return RemoteClient(line, timeout=timeout)


def _environment(name: str) -> str:
    variable = _VARIABLES[name]
    value = os.environ.get(variable)
    if not value:
        raise ConfigurationError(
            f"a daemon over TCP needs {name}, which wasn't given: set it, or ${variable}"
        )
    return value
