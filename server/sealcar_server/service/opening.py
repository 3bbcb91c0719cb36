"""Opens a generation: from hostile files to a record that may be acted upon.

Order of checks: (1) the newest number against what this daemon has seen; (2) the manifest is JSON
that means one thing; (3) its envelope and record parse; (4) the record's key alias is configured,
and the provider unwraps the package key for this package; (5) the tag; (6) the record's name,
version and generation are those of the place it lies in; (7) what ORT reads in the manifest is what
was sealed; (8) the record follows on the one that was seen last.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import (
    AlreadyExistsError,
    InvalidPackageError,
    NotAuthenticError,
    NotFoundError,
    RolledBackError,
    TruncatedError,
)
from sealcar_server.access.policy import unknown_package
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.sealing import agreement, record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.failing import during
from sealcar_server.service.metering import UNMETERED, Meter, timed
from sealcar_server.service.rollback import Sighting

if TYPE_CHECKING:
    from sealcar_server.keys.ring import KeyRing
    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordPayload, RecordVariant, SealRecord
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.rollback import Seen
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.local import LocalStore


@dataclass(frozen=True)
class OpenedPackage:
    """One authentic generation. Holds no key and no descriptor.

    Attributes:
        place: where it lies in the store.
        manifest: as parsed; of it only what the record covers may be acted upon.
        record: what may be acted upon.
        digest: SHA-256 of the record.
        missing: what the record has and the manifest lacks, (component, variant) each.
        unsealed: what the manifest has and the record lacks.
    """

    place: Generation
    manifest: dict[str, JsonValue] = field(repr=False)
    record: SealRecord = field(repr=False)
    digest: bytes
    missing: tuple[tuple[str, str], ...]
    unsealed: tuple[tuple[str, str], ...]

    def find(self, component: str, variant: str) -> RecordVariant | None:
        """Return a variant of the record, if there is one."""
        for item in self.record.variants:
            if (item.component, item.variant) == (component, variant):
                return item
        return None

    def variant(self, component: str, variant: str) -> RecordVariant:
        """Return a variant that may be served.

        Raises:
            NotFoundError: the record has none of that name.
            TruncatedError: the manifest lacks a variant of this component.
        """
        found = self.find(component, variant)
        if found is None:
            raise self._unknown(component, variant)
        for gone in self.missing:
            # what is missing could have been the better choice
            if gone[0] == component:
                raise TruncatedError(f"the manifest lacks variant {names.shown(gone[1])}")
        return found

    def body(self, component: str, variant: str) -> dict[str, JsonValue]:
        """Return what the manifest says of a variant; empty if it says nothing."""
        found: JsonValue = self.manifest
        for step in ("components", component, "variants", variant):
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def has_component(self, component: str) -> bool:
        """Tell whether the record has a component of that name."""
        return any(item.component == component for item in self.record.components)

    def payload(self, component: str, variant: str, name: str) -> RecordPayload:
        """Return a payload that may be served; NotFoundError if the variant has none such."""
        for item in self.variant(component, variant).payloads:
            if item.name == name:
                return item
        raise NotFoundError(f"payload {names.shown(name)} doesn't exist")

    def _unknown(self, component: str, variant: str) -> NotFoundError:
        if (component, variant) in self.unsealed:
            return NotFoundError(f"variant {names.shown(variant)} isn't sealed: it is never served")
        if not self.has_component(component):
            return NotFoundError(f"component {names.shown(component)} doesn't exist")
        return NotFoundError(f"variant {names.shown(variant)} doesn't exist")


class Opener:
    """Opens generations and remembers the last ones; safe to share between threads.

    Args:
        store: where they lie.
        keyring: unwraps their keys.
        seen: what this daemon has seen before.
        pointers: which versions are current.
        capacity: how many opened generations are remembered.
        meter: is told the seconds of "open" and "key".
    """

    def __init__(
        self,
        store: LocalStore,
        keyring: KeyRing,
        seen: Seen,
        pointers: Pointers,
        *,
        capacity: int = 128,
        meter: Meter = UNMETERED,
    ) -> None:
        self._store, self._keyring, self._seen, self._pointers = store, keyring, seen, pointers
        self._capacity, self._meter = capacity, meter
        self._lock = threading.Lock()
        self._opened: OrderedDict[tuple[str, str, int], OpenedPackage] = OrderedDict()

    def open(self, name: str, version: str = "", number: int = 0) -> OpenedPackage:
        """Open a generation; an empty version is the current one, number 0 the newest.

        Raises:
            NotFoundError: there is none.
            RequestError, DamagedError, KeyRefusedError, KeyUnavailableError: a check failed.
        """
        names.store_name(name)
        with during("open", package=name, version=version, generation=number):
            least = 0
            if not version:
                version, least = self._current(name)
            names.store_name(version, "version")
        with during("open", package=name, version=version, generation=number):
            number = number or self._newest(name, version, least)
            return self._remembered(name, version, number) or self._load(name, version, number)

    def refuse_known(self, name: str, version: str) -> None:
        """Make sure that a version is new.

        Raises:
            AlreadyExistsError: the store has it, or had it as far as this daemon has seen.
        """
        names.store_name(version, "version")
        seen = self._seen.package(name, version)
        if seen or self._store.newest(name, version):
            raise AlreadyExistsError(
                f"version {version} was imported before: import under another version"
            )

    def keys(self, opened: OpenedPackage) -> PackageKeys:
        """Return the package's keys, which the caller closes.

        Raises:
            KeyRefusedError: the configuration has no such key, or it isn't this package's.
            KeyUnavailableError: the key provider can't be reached.
        """
        return self._unwrap(opened.record)

    def payload_key(
        self, opened: OpenedPackage, component: str, variant: str, name: str
    ) -> PayloadKey:
        """Return the key of one payload; raises as `keys` does."""
        with self.keys(opened) as keys:
            return keys.variant(component, variant, name)

    def saw(self, place: Generation, digest: bytes) -> None:
        """Remember an authentic generation by its record: nothing older is newest from now on."""
        self._seen.saw(place.name, place.version, Sighting(place.number, digest))

    def _current(self, name: str) -> tuple[str, int]:
        if not self._store.versions(name):
            raise unknown_package(name)
        pointer = self._pointers.current(name)
        return pointer.version, pointer.generation

    def _newest(self, name: str, version: str, least: int) -> int:
        newest = self._store.newest(name, version)
        seen = self._seen.package(name, version)
        least = max(least, seen.generation if seen else 0)
        if newest < least:
            raise RolledBackError(
                f"the store's newest generation is {newest}; {least} was seen before"
            )
        if not newest:
            raise unknown_package(name)
        return newest

    def _remembered(self, name: str, version: str, number: int) -> OpenedPackage | None:
        with self._lock:
            found = self._opened.get((name, version, number))
            if found is not None:
                self._opened.move_to_end((name, version, number))
            return found

    def _load(self, name: str, version: str, number: int) -> OpenedPackage:
        with timed(self._meter, "open"):
            opened = self._authenticate(self._store.generation(name, version, number))
            self._check_history(opened)
            self.saw(opened.place, opened.digest)
        with self._lock:
            self._opened[name, version, number] = opened
            while len(self._opened) > self._capacity:
                self._opened.popitem(last=False)
        return opened

    def _authenticate(self, place: Generation) -> OpenedPackage:
        manifest = _object(strict_json(place.manifest(), error=NotAuthenticError))
        text, tag = record.open_envelope(manifest)
        sealed = record.parse(text)
        with self._unwrap(sealed) as keys:
            keys.verify_tag(text, tag)
        _check_place(sealed, place)
        try:
            differences = agreement.compare(sealed, manifest)
        except InvalidPackageError as error:
            raise NotAuthenticError(error.message) from None
        digest = hashlib.sha256(text).digest()
        return OpenedPackage(
            place, manifest, sealed, digest, differences.missing, differences.unsealed
        )

    def _unwrap(self, sealed: SealRecord) -> PackageKeys:
        wrapped = WrappedKey(sealed.kek_version, sealed.wrapped)
        context = package_context(sealed.package_id)
        with timed(self._meter, "key"), during("key"):
            root = self._keyring.unwrap(sealed.kek_alias, wrapped, context)
        return PackageKeys(root, sealed.package_id)

    def _check_history(self, opened: OpenedPackage) -> None:
        """Refuse a generation whose line of predecessors doesn't lead to the one seen last."""
        place, seen = opened.place, self._seen.package(opened.place.name, opened.place.version)
        if seen is None or place.number < seen.generation:
            return
        digest, previous = opened.digest, opened.record.previous
        for number in range(place.number, seen.generation, -1):
            if number - 1 == seen.generation:
                digest = previous
            else:
                line = self._predecessor(place, number - 1, previous)
                if line is None:
                    return
                previous = line
        if digest != seen.record:
            raise RolledBackError(
                f"this isn't the generation {seen.generation} that was seen before, "
                "or doesn't follow on it"
            )

    def _predecessor(self, place: Generation, number: int, expected: bytes) -> bytes | None:
        """Return whom the predecessor names in turn; None if it was pruned."""
        try:
            before = self._store.generation(place.name, place.version, number)
            text, _ = record.open_envelope(strict_json(before.manifest(), error=NotAuthenticError))
        except NotFoundError:
            return None
        if hashlib.sha256(text).digest() != expected:
            raise RolledBackError(f"generation {number} isn't what its successor was made from")
        return record.parse(text).previous


def _object(manifest: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(manifest, dict):
        raise NotAuthenticError("the manifest is no object")
    return manifest


def _check_place(sealed: SealRecord, place: Generation) -> None:
    found = f"{place.name}@{place.version}, generation {place.number}"
    stated = f"{sealed.name}@{sealed.version}, generation {sealed.generation}"
    if found != stated:
        raise NotAuthenticError(f"the record of {stated} lies in the place of {found}")
