"""A daemon that serves mutual TLS, and callers with certificates."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
from support.certificates import Authority, Issued
from support.daemon import Daemon
from support.grpcdoor import Door

import sealcar
from sealcar.v1 import package_store_pb2_grpc, payloads_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from sealcar.remote import RemoteClient

DOMAIN: Final = "example.org"
OCR: Final = f"spiffe://{DOMAIN}/ns/prod/sa/ocr"
OPERATOR: Final = f"spiffe://{DOMAIN}/ns/ops/sa/operator"
NOBODY: Final = f"spiffe://{DOMAIN}/ns/test/sa/nobody"
RIGHTS: Final = '["list", "read", "write", "import", "verify", "export"]'


@dataclass
class Served:
    """A daemon over TLS.

    Attributes:
        folder: with the daemon's certificate `server.pem`, `server.key`, and `ca.pem`.
        authority: signs the daemon's and the callers' certificates.
        daemon: serves, once it is started.
    """

    folder: Path
    authority: Authority
    daemon: Daemon

    @classmethod
    def make(cls, folder: Path, *, settings: Mapping[str, str] | None = None) -> Served:
        """Make all that is needed; ns/ops has nearly all rights, ns/prod may read."""
        authority = Authority()
        folder.joinpath("ca.pem").write_bytes(authority.certificate)
        over_tls = {
            "tls.address": "127.0.0.1:0",
            "tls.certificate": str(folder / "server.pem"),
            "tls.key": f"file:{folder / 'server.key'}",
            "tls.client_ca": str(folder / "ca.pem"),
            "tls.trust_domain": DOMAIN,
        }
        daemon = Daemon(folder, settings={**over_tls, **(settings or {})})
        made = cls(folder, authority, daemon)
        made.certify()
        made.grant(f"spiffe://{DOMAIN}/ns/ops/*", RIGHTS)
        made.grant(f"spiffe://{DOMAIN}/ns/prod/*", '["read"]')
        return made

    def certify(self, **options: Any) -> None:  # noqa: ANN401  (the authority's own)
        """Give the daemon a new certificate."""
        spiffe = f"spiffe://{DOMAIN}/sealcar"
        issued = self.authority.issue(
            spiffe, dns=("localhost",), addresses=("127.0.0.1",), **options
        )
        issued.write(self.folder, "server")

    def grant(self, spiffe: str, rights: str, packages: str = '["*"]') -> None:
        lines = [f'spiffe = "{spiffe}"', f"packages = {packages}", f"rights = {rights}"]
        with self.daemon.policy.open("a") as file:
            file.write("\n".join(["", "[[grant]]", *lines, ""]))

    @property
    def address(self) -> str:
        port = next(
            line["port"] for line in self.daemon.log if line.get("event") == "mutual TLS served"
        )
        return f"127.0.0.1:{port}"

    def caller(self, *uris: str, **options: Any) -> Issued:  # noqa: ANN401  (the authority's own)
        return self.authority.issue(*uris, **options)

    @contextlib.contextmanager
    def door(self, caller: Issued | None, **options: bytes) -> Iterator[Door]:
        """Call as somebody; without a certificate, as somebody who has none."""
        credentials = grpc.ssl_channel_credentials(
            options.get("root", self.authority.certificate),
            caller.key if caller else None,
            caller.certificate if caller else None,
        )
        with grpc.secure_channel(self.address, credentials) as channel:
            yield stubs(channel)

    def files(self, spiffe: str, name: str = "caller") -> dict[str, Any]:
        """Write a caller's certificate; return what `sealcar.connect_remote` takes."""
        certificate, key = self.caller(spiffe).write(self.folder, name)
        return {"ca": self.folder / "ca.pem", "certificate": certificate, "key": key}

    def client(self, spiffe: str, **options: Any) -> RemoteClient:  # noqa: ANN401  (connect's own)
        return sealcar.connect_remote(self.address, **self.files(spiffe), **options)

    def reload(self) -> None:
        """Have the daemon read its files again now."""
        os.kill(self.daemon.pid, signal.SIGHUP)

    def events(self) -> Iterable[str]:
        return [line.get("event", "") for line in self.daemon.log]


def audited(daemon: Daemon, event: str) -> list[dict[str, Any]]:
    """Return the lines of the audit log about such events."""
    lines: list[dict[str, Any]] = []
    for path in sorted((daemon.folder / "state" / "audit").glob("*.jsonl")):
        lines += [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line.get("event") == event]


def until(done: Callable[[], bool], timeout: float = 10) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stubs(channel: grpc.Channel) -> Door:
    return Door(
        package_store_pb2_grpc.PackageStoreStub(channel), payloads_pb2_grpc.PayloadsStub(channel)
    )
