"""Client of the PackageStore service."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Self

import grpc

from sealcar import rpc
from sealcar.catalogue import values
from sealcar.catalogue.importing import Requests, imported
from sealcar.errors import IncompatibleError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1.package_store_pb2_grpc import PackageStoreStub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.catalogue.importing import Plan
    from sealcar.catalogue.values import Watcher

PAGE: Final = 1000


class Catalogue:
    """A daemon's packages, over gRPC. Thread-safe.

    Args:
        listener: directory that holds `grpc.sock`.
        peer_uid: the daemon's uid, checked before anything is sent.
        timeout: seconds for one answer, and between two messages of a stream.
    """

    def __init__(self, listener: Path, *, peer_uid: int, timeout: float = 30.0) -> None:
        self._rpc = rpc.Channel(listener / "grpc.sock", peer_uid=peer_uid, timeout=timeout)

    def list(self, prefix: str = "") -> Iterator[values.PackageSummary]:
        """Yield the packages that the caller may list, by name, then version.

        Raises:
            SealcarError: of the kind that the daemon found.
        """
        request = pb.ListRequest(page_size=PAGE, name_prefix=prefix)
        while True:
            with self._rpc.translating("list"):
                answer = self._stub().List(request, timeout=self._rpc.timeout)
            yield from map(values.summary, answer.packages)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def get(self, name: str, version: str = "", generation: int = 0) -> values.PackageDetail:
        """Return one package in full; the daemon has checked its seal record.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DamagedError: its record isn't authentic.
        """
        package = common.PackageRef(name=name, version=version)
        request = pb.GetRequest(package=package, generation=generation)
        with self._rpc.translating("get"):
            return values.detail(self._stub().Get(request, timeout=self._rpc.timeout))

    def import_(
        self, plan: Plan, *, kek: str = "", progress: Watcher | None = None
    ) -> values.Imported:
        """Send a package; the daemon seals it as it arrives. Nothing stays behind on failure.

        Raises:
            AlreadyExistsError: the version is there already.
            InvalidPackageError: it breaks a rule; the message says where.
        """
        source = Requests(plan, kek)
        with self._rpc.translating("import"):
            call = self._stub().Import(iter(source))
            try:
                with self._rpc.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        if answer.WhichOneof("step") == "imported":
                            _await_end(call)
                            return imported(answer.imported)
                        _tell(progress, answer.progress)
            except grpc.RpcError as error:
                if source.failure is not None:
                    raise source.failure from error
                raise
            finally:
                call.cancel()
        raise IncompatibleError("the daemon ended the import without saying what it became")

    def verify(
        self, name: str, version: str = "", generation: int = 0, *, progress: Watcher | None = None
    ) -> values.Verified:
        """Have every byte of a package read and checked against its seal record.

        Raises:
            DamagedError: names the first payload that isn't what it should be.
        """
        package = common.PackageRef(name=name, version=version)
        with self._rpc.translating("verify"):
            call = self._stub().Verify(pb.VerifyRequest(package=package, generation=generation))
            try:
                with self._rpc.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        if answer.WhichOneof("step") == "verified":
                            found = answer.verified
                            _await_end(call)
                            return values.Verified(found.generation, found.payloads, found.size)
                        _tell(progress, answer.progress)
            finally:
                call.cancel()
        raise IncompatibleError("the daemon ended the check without a result")

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stub(self) -> PackageStoreStub:
        return PackageStoreStub(self._rpc.get())


def _await_end(call: Iterator[object]) -> None:
    """Let a call that has said all end by itself: the daemon counts a cut one as cancelled."""
    with contextlib.suppress(grpc.RpcError):
        next(call, None)


def _tell(progress: Watcher | None, message: pb.Progress) -> None:
    if progress is not None:
        progress(values.Progress(message.done, message.total, message.payload))
