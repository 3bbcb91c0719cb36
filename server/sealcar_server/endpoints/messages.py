"""Values of the service as messages of the wire, and back, for both doors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import payloads_pb2 as payloads
from sealcar_server.service.values import CommitValues, ScopeKey

if TYPE_CHECKING:
    from sealcar_server.service.prefetching import Prefetched
    from sealcar_server.service.values import OpenedVariant, PayloadValue, VariantValue

MAX_PAGE: Final = 256 << 10  # bytes of one answer
_FRAMING: Final = 8  # bytes at most around one payload
_TOKEN: Final = re.compile(r"[0-9]{1,8}")
KINDS: Final = {
    "model": common.PAYLOAD_KIND_MODEL,
    "initializers": common.PAYLOAD_KIND_INITIALIZERS,
    "blob": common.PAYLOAD_KIND_BLOB,
    "other": common.PAYLOAD_KIND_OTHER,
}
_KIND_NAMES: Final = {number: name for name, number in KINDS.items()}


def kind_name(kind: common.PayloadKind.ValueType) -> str:
    """Return a payload's kind as the service has it.

    Raises:
        InvalidRequestError: it is missing, or of a newer release.
    """
    try:
        return _KIND_NAMES[kind]
    except KeyError:
        raise InvalidRequestError(
            f"a payload's kind must be one of {', '.join(sorted(KINDS))}"
        ) from None


def scope_key(scope: common.Scope) -> ScopeKey:
    """Return a scope as the service has it; the service checks the names."""
    return ScopeKey(
        scope.package.name,
        scope.package.version,
        scope.component,
        scope.variant,
        scope.generation,
    )


def scope_message(scope: ScopeKey) -> common.Scope:
    """Return a scope as the wire has it."""
    return common.Scope(
        package=common.PackageRef(name=scope.package, version=scope.version),
        component=scope.component,
        variant=scope.variant,
        generation=scope.generation,
    )


def payload_message(payload: PayloadValue) -> common.PayloadInfo:
    """Return a payload as the wire has it."""
    return common.PayloadInfo(
        name=payload.name,
        kind=KINDS[payload.kind],
        size=payload.size,
        sealed=payload.sealed,
        identity=payload.identity,
    )


def variant_message(
    variant: VariantValue, payloads: tuple[PayloadValue, ...]
) -> common.VariantInfo:
    """Return a variant as the wire has it, with these of its payloads."""
    return common.VariantInfo(
        component=variant.component,
        variant=variant.variant,
        ep=variant.ep,
        device=variant.device,
        compatibility=variant.compatibility,
        executor_info_json=variant.executor_info_json,
        payloads=[payload_message(payload) for payload in payloads],
        sealed=variant.sealed,
    )


def opened_message(
    opened: OpenedVariant, token: str, page_size: int = MAX_PAGE
) -> payloads.OpenResponse:
    """Return one page of an opened variant's payloads: as many as fit into `page_size` bytes.

    Raises:
        InvalidRequestError: the token is none that an answer before gave.
    """
    everything = opened.variant.payloads
    start = _page_start(token, len(everything))
    answer = payloads.OpenResponse(
        scope=scope_message(opened.scope), variant=variant_message(opened.variant, ())
    )
    room = page_size - answer.ByteSize()
    for at, payload in enumerate(everything[start:], start):
        message = payload_message(payload)
        room -= message.ByteSize() + _FRAMING
        if room < 0 and at > start:
            answer.next_page_token = str(at)
            break
        answer.variant.payloads.append(message)
    return answer


def prefetched_message(found: Prefetched) -> payloads.Prefetched:
    """Return what was got ready."""
    return payloads.Prefetched(
        scope=scope_message(found.scope),
        payloads=found.payloads,
        size=found.size,
        shared=found.shared,
    )


def _page_start(token: str, count: int) -> int:
    if not token:
        return 0
    if not _TOKEN.fullmatch(token) or not 0 < int(token) < count:
        raise InvalidRequestError("the page token is none of this scope's")
    return int(token)


def commit_values(request: payloads.CommitRequest) -> CommitValues:
    """Return what a commit says of its variant."""
    return CommitValues(
        payloads=request.payloads,
        ep=request.ep,
        device=request.device,
        compatibility=request.compatibility,
        executor_info_json=request.executor_info_json or "{}",
    )
