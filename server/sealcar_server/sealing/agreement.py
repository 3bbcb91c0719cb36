"""Does a manifest still say what its seal record covers?

A manifest may be rewritten by other tools: key order inside the parts that nobody reads, spaces,
descriptions. A covered part that changed is refused by its place. A variant that was added is
reported as unsealed, one that was taken away as missing; neither is ever served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.canonical import Covered, CoveredVariant, covered, pointer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordVariant, SealRecord


@dataclass(frozen=True, slots=True)
class Differences:
    """What a manifest has more, and less, than its record: (component, variant) each."""

    unsealed: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]


def compare(record: SealRecord, manifest: JsonValue) -> Differences:
    """Check every covered part of a manifest against an authenticated record.

    Raises:
        NotAuthenticError: a covered part changed; the message has its JSON Pointer.
        InvalidPackageError: the manifest isn't written inline.
    """
    found = covered(manifest)
    _same(record.package, found.package)
    _compare_components(record, found)
    sealed = {(item.component, item.variant): item for item in record.variants}
    present = {(item.component, item.variant): item for item in found.variants}
    for scope, item in present.items():
        if scope in sealed:
            _compare_variant(sealed[scope], item)
    _compare_order(list(sealed), list(present))
    return Differences(
        unsealed=tuple(scope for scope in present if scope not in sealed),
        missing=tuple(scope for scope in sealed if scope not in present),
    )


def _compare_components(record: SealRecord, found: Covered) -> None:
    sealed = {item.component: item.body for item in record.components}
    for item in found.components:
        if item.component in sealed:
            _same(
                {item.component: sealed[item.component]},
                {item.component: item.body},
                "components",
            )


def _compare_variant(sealed: RecordVariant, found: CoveredVariant) -> None:
    place = ("components", found.component, "variants")
    _same({found.variant: sealed.body}, {found.variant: found.body}, *place)
    _same(sealed.executor_info, found.executor_info, *place, found.variant, "executor_info")


def _compare_order(sealed: list[tuple[str, str]], present: list[tuple[str, str]]) -> None:
    # of two variants that fit equally well the first is selected, so the order is covered too
    for component in dict.fromkeys(component for component, _ in sealed):
        before = [scope for scope in sealed if scope[0] == component and scope in present]
        after = [scope for scope in present if scope[0] == component and scope in sealed]
        if before != after:
            raise _changed("components", component, "variants")


def _same(sealed: Mapping[str, bytes], found: Mapping[str, bytes], *place: str) -> None:
    for name in sealed.keys() | found.keys():
        if sealed.get(name) != found.get(name):
            raise _changed(*place, name)


def _changed(*place: str) -> NotAuthenticError:
    return NotAuthenticError(
        f"manifest: {pointer(*place)} isn't what was sealed; restore it, or seal the package again"
    )
