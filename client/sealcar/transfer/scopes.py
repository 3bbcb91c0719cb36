"""Names and values of scopes, as the data socket has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self, TypeVar

from sealcar.asking import asking
from sealcar.errors import (
    IncompatibleError,
    InvalidRequestError,
    SealcarError,
    UnavailableError,
)
from sealcar.transfer.payloads import PayloadRef
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.transfer.connection import DataConnection

KINDS: Final[Mapping[str, common_pb2.PayloadKind.ValueType]] = {
    "model": common_pb2.PAYLOAD_KIND_MODEL,
    "initializers": common_pb2.PAYLOAD_KIND_INITIALIZERS,
    "blob": common_pb2.PAYLOAD_KIND_BLOB,
    "other": common_pb2.PAYLOAD_KIND_OTHER,
}
# that a package has in all its variants together
MAX_PAYLOADS: Final = 100_000
_KIND_NAMES: Final = {number: name for name, number in KINDS.items()}
_Error = TypeVar("_Error", bound=SealcarError)


@dataclass(frozen=True)
class ScopeName:
    """What a payload's name is relative to."""

    package: str
    component: str
    variant: str
    version: str = ""
    generation: int = 0

    @classmethod
    def of(cls, scope: common_pb2.Scope) -> Self:
        """Return what the wire says."""
        package = scope.package
        return cls(package.name, scope.component, scope.variant, package.version, scope.generation)

    def message(self) -> common_pb2.Scope:
        """Return it as the wire has it, to be copied into a request and not changed.

        Raises:
            InvalidRequestError: something can't be put into a message.
        """
        return self._message

    @cached_property
    def _message(self) -> common_pb2.Scope:
        with asking():
            return common_pb2.Scope(
                package=common_pb2.PackageRef(name=self.package, version=self.version),
                component=self.component,
                variant=self.variant,
                generation=self.generation,
            )

    def placed(self, error: _Error, phase: str, payload: str = "") -> _Error:
        """Return the error with what it lacks of its place filled in."""
        return error.at(
            phase=phase,
            package=self.package,
            version=self.version,
            component=self.component,
            variant=self.variant,
            generation=self.generation,
            payload=payload,
        )


@dataclass(frozen=True)
class OpenedScope:
    """One state of one variant, as the daemon opened it."""

    name: ScopeName
    ep: str
    device: str
    compatibility: str
    executor_info: Mapping[str, object]
    payloads: tuple[PayloadRef, ...]


def open_scope(connection: DataConnection, name: ScopeName) -> OpenedScope:
    """Ask the daemon for a variant and all its payloads.

    Raises:
        SealcarError: what the daemon answered.
    """
    return opened_scope(
        lambda request: connection.request(pb.ClientPacket(open=request), "opened").opened, name
    )


def opened_scope(
    page: Callable[[payloads_pb2.OpenRequest], payloads_pb2.OpenResponse], name: ScopeName
) -> OpenedScope:
    """Ask for a variant and all its payloads, page by page.

    Raises:
        SealcarError: what the daemon answered.
    """
    request = payloads_pb2.OpenRequest(scope=name.message())
    payloads: list[PayloadRef] = []
    while True:
        opened = page(request)
        payloads.extend(payload_ref(info) for info in opened.variant.payloads)
        if not opened.next_page_token:
            break
        if not opened.variant.payloads or len(payloads) > MAX_PAYLOADS:
            raise IncompatibleError("the daemon lists the payloads of a variant without end")
        request.scope.CopyFrom(opened.scope)
        request.page_token = opened.next_page_token
    variant = opened.variant
    return OpenedScope(
        name=ScopeName.of(opened.scope),
        ep=variant.ep,
        device=variant.device,
        compatibility=variant.compatibility,
        executor_info=_executor_info(variant.executor_info_json),
        payloads=tuple(payloads),
    )


def payload_ref(info: common_pb2.PayloadInfo) -> PayloadRef:
    """Return what the wire says of a payload."""
    kind = _KIND_NAMES.get(info.kind, "other")
    return PayloadRef(info.name, kind, info.size, info.sealed, info.identity)


def payload_kind(kind: str) -> common_pb2.PayloadKind.ValueType:
    """Return a kind as the wire has it.

    Raises:
        InvalidRequestError: no such kind.
    """
    try:
        return KINDS[kind]
    except KeyError:
        raise InvalidRequestError(f"no payload kind {kind!r}; one of {', '.join(KINDS)}") from None


def _executor_info(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise UnavailableError(f"the daemon sent executor_info that isn't JSON: {error}") from None
    if not isinstance(value, dict):
        raise UnavailableError("the daemon sent executor_info that isn't a JSON object")
    return value
