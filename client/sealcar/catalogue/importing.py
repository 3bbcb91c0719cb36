"""What an import sends, message by message, and what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from sealcar.asking import asking
from sealcar.catalogue import values
from sealcar.transfer.scopes import payload_kind
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    def asset(self) -> str:
        """Where it belongs instead: URI of a shared asset, of the plain content; else empty."""

    @property
    def name(self) -> str:
        """Relative to the variant, or to the asset."""

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


class Requests:
    """The requests of one import; it keeps the failure that gRPC would swallow."""

    def __init__(self, plan: Plan, kek: str, *, sealed: bool) -> None:
        self.failure: Exception | None = None
        self._plan = plan
        self._kek = kek
        self._sealed = sealed

    def __iter__(self) -> Iterator[pb.ImportRequest]:
        try:
            yield from self._requests()
        except Exception as error:  # noqa: BLE001  (import_ raises it when the call ends for lack of `finish`)
            self.failure = error

    def _requests(self) -> Iterator[pb.ImportRequest]:
        plan = self._plan
        with asking():
            begin = pb.ImportBegin(
                package=common.PackageRef(name=plan.name, version=plan.version),
                manifest_json=plan.manifest_json,
                kek_alias=self._kek,
                sealed=self._sealed,
            )
        yield pb.ImportRequest(begin=begin)
        for payload in plan.payloads:
            yield pb.ImportRequest(payload=_described(payload))
            for chunk in payload.chunks():
                view = memoryview(chunk).cast("B")
                for at in range(0, len(view), PIECE):
                    yield pb.ImportRequest(data=bytes(view[at : at + PIECE]))
        yield pb.ImportRequest(finish=pb.ImportFinish(payloads=len(plan.payloads)))


def _described(payload: Payload) -> pb.ImportPayload:
    with asking():
        return pb.ImportPayload(
            component=payload.component,
            variant=payload.variant,
            asset=payload.asset,
            name=payload.name,
            kind=payload_kind(payload.kind),
            size=payload.size,
        )


def imported(message: pb.Imported) -> values.Imported:
    """Return what the daemon said of a package that is in the store now."""
    package = message.package
    return values.Imported(package.name, package.version, message.generation, message.package_id)
