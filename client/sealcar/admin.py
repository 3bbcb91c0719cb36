"""Client of the admin socket, for operators: how the daemon's keys are. Never a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sealcar import rpc
from sealcar.v1 import keys_pb2 as pb
from sealcar.v1.keys_pb2_grpc import KeysStub

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class KekStatus:
    """One key-encryption key of the daemon's configuration.

    Attributes:
        alias: its name in the configuration and in seal records.
        provider: kind of provider.
        version: wraps new package keys.
        available: the provider answered just now.
        problem: why not, else empty.
        cached: unwrapped package keys in the daemon's memory.
    """

    alias: str
    provider: str
    version: str
    available: bool
    problem: str
    cached: int


class Admin:
    """A daemon's admin socket.

    Args:
        directory: holds `admin.sock`.
        peer_uid: the daemon's uid, checked before anything is sent.
        timeout: seconds for one answer.
    """

    def __init__(self, directory: Path, *, peer_uid: int, timeout: float = 30.0) -> None:
        self._rpc = rpc.Channel(directory / "admin.sock", peer_uid=peer_uid, timeout=timeout)

    def keys(self) -> tuple[KekStatus, ...]:
        """Ask every key provider for its health.

        Raises:
            UnavailableError: nobody listens, or not to this user.
        """
        with self._rpc.translating("status"):
            stub = KeysStub(self._rpc.get())
            answer = stub.Status(pb.KeysStatusRequest(), timeout=self._rpc.timeout)
        return tuple(
            KekStatus(
                each.alias,
                each.provider,
                each.version,
                each.available,
                each.problem,
                each.cached,
            )
            for each in answer.keks
        )

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
