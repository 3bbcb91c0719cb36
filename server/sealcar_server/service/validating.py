"""Checks the structure of a generation, and tells all that is wrong rather than the first thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import (
    DamagedError,
    InvalidNameError,
    InvalidPackageError,
    KeyRefusedError,
    LockedError,
    NotAuthenticError,
    NotFoundError,
)
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right
from sealcar_server.sealing.agreement import differences, place_of_variant
from sealcar_server.sealing.canonical import covered
from sealcar_server.service.failing import during
from sealcar_server.service.finding import parsed, parsed_object
from sealcar_server.service.findings import Finding, Validated, format_findings, in_order
from sealcar_server.service.opened import every_payload
from sealcar_server.store.generation import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.principal import Principal
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.service.finding import Found
    from sealcar_server.service.gate import Gate
    from sealcar_server.service.opened import Held
    from sealcar_server.service.opening import Opener
    from sealcar_server.store.generation import Generation

_ENVELOPE: Final = "/additional_metadata/sealcar"


class Validator:
    """Safe to share between threads.

    Args:
        gate: decides who may.
        opener: opens records.
        trail: accounts for every decision.
    """

    def __init__(self, gate: Gate, opener: Opener, trail: Trail = UNAUDITED) -> None:
        self._gate, self._opener, self._trail = gate, opener, trail

    def validate(
        self, principal: Principal, name: str, version: str = "", generation: int = 0
    ) -> Validated:
        """Check one generation; payloads aren't read.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not verify it.
            RolledBackError: it is older than what was seen before.
            KeyUnavailableError, StorageError: it can't be checked.
        """
        asked: dict[str, str | int] = {"package": name, "version": version}
        asked["generation"] = generation
        with self._trail.decision(principal, Right.VERIFY, **asked) as entry:
            with during("open", **asked):
                names.store_name(name)
                entry.rule = self._gate.require_even_locked(principal, Right.VERIFY, name)
                place = self._opener.place(name, version, generation)
            entry.resolved(place.version, place.number)
            with during("validate", package=name, version=place.version, generation=place.number):
                return self._validated(place)

    def _validated(self, place: Generation) -> Validated:
        findings: list[Finding] = []
        manifest: dict[str, JsonValue] = {}
        verified = True
        try:
            data = place.manifest()
            manifest = parsed_object(data)
            covered(manifest)
        except (DamagedError, InvalidPackageError) as error:
            findings.append(Finding("schema", MANIFEST, error.message))
        else:
            findings += _by_format(place, data)
            found = _found(place, data, findings)
            if found is not None:
                verified = self._prove(found, findings)
                findings += _by_record(found)
        ordered = in_order(findings, manifest)
        return Validated(place.name, place.version, place.number, tuple(ordered), verified)

    def _prove(self, found: Found, findings: list[Finding]) -> bool:
        try:
            self._opener.prove(found)
        except LockedError:
            return False
        except (DamagedError, KeyRefusedError) as error:
            findings.append(Finding("seal-record", _ENVELOPE, error.message))
        return True


def _found(place: Generation, data: bytes, findings: list[Finding]) -> Found | None:
    try:
        return parsed(data, lambda _: place)
    except DamagedError as error:
        findings.append(Finding("seal-record", _ENVELOPE, error.message))
        return None


def _by_format(place: Generation, data: bytes) -> list[Finding]:
    with place.tree() as directory:
        try:
            root = Path(f"/proc/self/fd/{directory.fd}").readlink()
            return list(format_findings(root, data))
        except (OSError, ValueError) as error:
            message = f"a path of the package can't be followed: {type(error).__name__}"
            return [Finding("not-found", MANIFEST, message)]


def _by_record(found: Found) -> Iterator[Finding]:
    other = differences(found.record, found.manifest)
    for place in other.changed:
        yield Finding("changed", place, "isn't what was sealed")
    for scope in other.unsealed:
        yield Finding(
            "not-sealed",
            place_of_variant(*scope),
            "nobody sealed this variant: it is never served",
            is_error=False,
        )
    for scope in other.missing:
        message = "the manifest lacks this variant: nothing of its component is served"
        yield Finding("missing", place_of_variant(*scope), message)
    for held in every_payload(found.opened(other)):
        yield from _of_file(found.place, held)


def _of_file(place: Generation, held: Held) -> Iterator[Finding]:
    at = held.name
    try:
        at = held.path()
        file = held.open(place)
    except NotFoundError:
        yield Finding("missing", at, "the seal record has this payload, the store hasn't")
        return
    except (NotAuthenticError, InvalidNameError) as error:
        yield Finding("confinement", at, error.message)
        return
    try:
        size = file.size()
    finally:
        file.close()
    expected = held.payload.file_size
    if size != expected:
        yield Finding("size", at, f"has {size} bytes, not {expected}")
