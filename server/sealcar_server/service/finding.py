"""What lies in a generation's place, before any key is asked for: hostile until it is checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError, NotAuthenticError
from sealcar_server.sealing import agreement, record
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.opened import OpenedPackage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import SealRecord
    from sealcar_server.store.generation import Generation


@dataclass(frozen=True)
class Found:
    """A manifest and the record in it, parsed and nothing more.

    Attributes:
        place: where it lies.
        data: the manifest's bytes.
        manifest: what they say.
        text: the record's bytes.
        tag: that ought to authenticate them.
        record: what they say.
    """

    place: Generation
    data: bytes = field(repr=False)
    manifest: dict[str, JsonValue] = field(repr=False)
    text: bytes = field(repr=False)
    tag: bytes = field(repr=False)
    record: SealRecord = field(repr=False)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the record."""
        return hashlib.sha256(self.text).digest()

    @property
    def sha256(self) -> bytes:
        """SHA-256 of the manifest."""
        return hashlib.sha256(self.data).digest()

    def authenticate(self, keys: PackageKeys) -> None:
        """Check the record's tag, and that it speaks of the place where it lies.

        Raises:
            NotAuthenticError: the holder of the key didn't write it, or not for this place.
        """
        keys.verify_tag(self.text, self.tag)
        check_place(self.record, self.place)

    def agreed(self) -> OpenedPackage:
        """Return the generation, whose manifest says what the record covers.

        Raises:
            NotAuthenticError: it says something else.
        """
        try:
            found = agreement.compare(self.record, self.manifest)
        except InvalidPackageError as error:
            raise NotAuthenticError(error.message) from None
        return self.opened(found)

    def opened(self, differences: agreement.Differences) -> OpenedPackage:
        """Return the generation, whatever its manifest says."""
        return OpenedPackage(
            self.place,
            len(self.data),
            self.manifest,
            self.record,
            self.digest,
            differences.missing,
            differences.unsealed,
        )


def find(place: Generation) -> Found:
    """Read what lies in a place.

    Raises:
        NotFoundError: there is nothing.
        NotAuthenticError: no sealcar wrote it.
        UnknownFormatError: sealcar didn't seal it, or a newer one did.
    """
    found = parsed(place.manifest(), lambda _: place)
    _refuse_transit(found.record)
    return found


def _refuse_transit(sealed: SealRecord) -> None:
    """Make sure that a record belongs into a store.

    Raises:
        NotAuthenticError: it is of a package on its way to one.
    """
    if sealed.transit is not None:
        raise NotAuthenticError("a package in transit lies in the store: import it")


def parsed(data: bytes, place: Callable[[SealRecord], Generation]) -> Found:
    """Read a manifest that may lie elsewhere.

    Args:
        data: its bytes.
        place: says where a generation with this record belongs.

    Raises:
        NotAuthenticError: no sealcar wrote it.
        UnknownFormatError: sealcar didn't seal it, or a newer one did.
    """
    manifest, text, tag, sealed = _read(data)
    return Found(place(sealed), data, manifest, text, tag, sealed)


def record_in(data: bytes) -> SealRecord:
    """Return the record in the manifest of a generation, wherever that lies; raises as `find`."""
    *_, sealed = _read(data)
    _refuse_transit(sealed)
    return sealed


def _read(data: bytes) -> tuple[dict[str, JsonValue], bytes, bytes, SealRecord]:
    manifest = parsed_object(data)
    text, tag = record.open_envelope(manifest)
    return manifest, text, tag, record.parse(text)


def parsed_object(data: bytes) -> dict[str, JsonValue]:
    """Return what a manifest says; NotAuthenticError if it isn't one object of strict JSON."""
    manifest = strict_json(data, error=NotAuthenticError)
    if not isinstance(manifest, dict):
        raise NotAuthenticError("the manifest is no object")
    return manifest


def check_place(sealed: SealRecord, place: Generation) -> None:
    """Make sure that a record speaks of this place.

    Raises:
        NotAuthenticError: it is another one's.
    """
    found = f"{place.name}@{place.version}, generation {place.number}"
    stated = f"{sealed.name}@{sealed.version}, generation {sealed.generation}"
    if found != stated:
        raise NotAuthenticError(f"the record of {stated} lies in the place of {found}")
