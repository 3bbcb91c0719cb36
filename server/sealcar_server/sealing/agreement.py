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
    from collections.abc import Iterator, Mapping

    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordVariant, SealRecord


@dataclass(frozen=True, slots=True)
class Differences:
    """What a manifest has more, less, and otherwise than its record.

    Attributes:
        unsealed: (component, variant) of what the record hasn't got.
        missing: (component, variant) of what only the record has.
        changed: JSON Pointers of covered parts that aren't what was sealed.
    """

    unsealed: tuple[tuple[str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    changed: tuple[str, ...] = ()


def compare(record: SealRecord, manifest: JsonValue) -> Differences:
    """Check every covered part of a manifest against an authenticated record.

    Raises:
        NotAuthenticError: a covered part changed; the message has its JSON Pointer.
        InvalidPackageError: the manifest isn't written inline.
    """
    found = differences(record, manifest)
    for place in found.changed:
        raise NotAuthenticError(
            f"manifest: {place} isn't what was sealed; restore it, or seal the package again"
        )
    return found


def differences(record: SealRecord, manifest: JsonValue) -> Differences:
    """Find everything in which a manifest differs from its record.

    Raises:
        InvalidPackageError: the manifest isn't written inline.
    """
    found = covered(manifest)
    sealed = {(item.component, item.variant): item for item in record.variants}
    present = {(item.component, item.variant): item for item in found.variants}
    changed = [
        *_other(record.package, found.package),
        *_other_components(record, found),
        *(
            place
            for scope, item in present.items()
            if scope in sealed
            for place in _other_variant(sealed[scope], item)
        ),
        *_other_order(list(sealed), list(present)),
    ]
    return Differences(
        unsealed=tuple(scope for scope in present if scope not in sealed),
        missing=tuple(scope for scope in sealed if scope not in present),
        changed=tuple(changed),
    )


def place_of_variant(component: str, variant: str) -> str:
    """Return the JSON Pointer of a variant."""
    return pointer("components", component, "variants", variant)


def _other_components(record: SealRecord, found: Covered) -> Iterator[str]:
    sealed = {item.component: item.body for item in record.components}
    for item in found.components:
        if sealed.get(item.component, item.body) != item.body:
            yield pointer("components", item.component)


def _other_variant(sealed: RecordVariant, found: CoveredVariant) -> Iterator[str]:
    place = ("components", found.component, "variants", found.variant)
    if sealed.body != found.body:
        yield pointer(*place)
    yield from _other(sealed.executor_info, found.executor_info, *place, "executor_info")


def _other_order(sealed: list[tuple[str, str]], present: list[tuple[str, str]]) -> Iterator[str]:
    # of two variants that fit equally well the first is selected, so the order is covered too
    common = {*sealed} & {*present}
    for component in dict.fromkeys(component for component, _ in sealed):
        before = [scope for scope in sealed if scope[0] == component and scope in common]
        after = [scope for scope in present if scope[0] == component and scope in common]
        if before != after:
            yield pointer("components", component, "variants")


def _other(sealed: Mapping[str, bytes], found: Mapping[str, bytes], *place: str) -> Iterator[str]:
    for name in {**found, **sealed}:
        if sealed.get(name) != found.get(name):
            yield pointer(*place, name)
