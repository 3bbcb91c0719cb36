"""Client of the PackageStore service."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol, Self

import grpc

from sealcar import rpc
from sealcar.catalogue import values
from sealcar.errors import IncompatibleError
from sealcar.transfer.scopes import payload_kind
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1.package_store_pb2_grpc import PackageStoreStub

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sealcar.catalogue.values import Watcher

PAGE: Final = 1000
PIECE: Final = 1 << 20


class Payload(Protocol):
    """A payload that waits to be sent."""

    @property
    def component(self) -> str:
        """Where it belongs."""

    @property
    def variant(self) -> str:
        """Where it belongs."""

    @property
    def name(self) -> str:
        """Relative to the variant."""

    @property
    def kind(self) -> str:
        """One of "model", "initializers", "blob", "other"."""

    @property
    def size(self) -> int:
        """In bytes."""

    def chunks(self) -> Iterable[bytes | bytearray | memoryview]:
        """Its bytes in order."""


class Plan(Protocol):
    """A package that waits to be imported: what `sealcar.publish.plan` returns."""

    @property
    def name(self) -> str:
        """Store name."""

    @property
    def version(self) -> str:
        """Store version; empty lets the daemon choose."""

    @property
    def manifest_json(self) -> str:
        """Manifest with every component inline."""

    @property
    def payloads(self) -> Sequence[Payload]:
        """Everything that the manifest refers to."""


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
        source = _Source(plan, kek)
        with self._rpc.translating("import"):
            call = self._stub().Import(iter(source))
            try:
                with self._rpc.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        if answer.WhichOneof("step") == "imported":
                            _await_end(call)
                            return _imported(answer.imported)
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


class _Source:
    """The requests of one import; it keeps the failure that gRPC would swallow."""

    def __init__(self, plan: Plan, kek: str) -> None:
        self.failure: Exception | None = None
        self._plan = plan
        self._kek = kek

    def __iter__(self) -> Iterator[pb.ImportRequest]:
        try:
            yield from self._requests()
        except Exception as error:  # noqa: BLE001  (import_ raises it when the call ends for lack of `finish`)
            self.failure = error

    def _requests(self) -> Iterator[pb.ImportRequest]:
        plan = self._plan
        package = common.PackageRef(name=plan.name, version=plan.version)
        yield pb.ImportRequest(
            begin=pb.ImportBegin(
                package=package, manifest_json=plan.manifest_json, kek_alias=self._kek
            )
        )
        for payload in plan.payloads:
            yield pb.ImportRequest(
                payload=pb.ImportPayload(
                    component=payload.component,
                    variant=payload.variant,
                    name=payload.name,
                    kind=payload_kind(payload.kind),
                    size=payload.size,
                )
            )
            for chunk in payload.chunks():
                view = memoryview(chunk).cast("B")
                for at in range(0, len(view), PIECE):
                    yield pb.ImportRequest(data=bytes(view[at : at + PIECE]))
        yield pb.ImportRequest(finish=pb.ImportFinish(payloads=len(plan.payloads)))


def _await_end(call: Iterator[object]) -> None:
    """Let a call that has said all end by itself: the daemon counts a cut one as cancelled."""
    with contextlib.suppress(grpc.RpcError):
        next(call, None)


def _imported(message: pb.Imported) -> values.Imported:
    package = message.package
    return values.Imported(package.name, package.version, message.generation, message.package_id)


def _tell(progress: Watcher | None, message: pb.Progress) -> None:
    if progress is not None:
        progress(values.Progress(message.done, message.total, message.payload))
