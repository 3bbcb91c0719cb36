"""Opens a generation: from hostile files to a record that may be acted upon.

Order of checks: (1) the number against what this daemon has seen and against pins; (2) the manifest
is JSON that means one thing; (3) its envelope and record parse; (4) the record's key alias is
configured, and the provider unwraps the package key for this package; (5) the tag; (6) the record's
name, version and generation are those of the place it lies in; (7) what ORT reads in the manifest
is what was sealed; (8) the record follows on the one that was seen last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import NotAuthenticError, NotFoundError, RolledBackError
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.sealing import agreement
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.service.failing import during
from sealcar_server.service.finding import check_place, find
from sealcar_server.service.history import check_history, check_key
from sealcar_server.service.meaning import Meaning
from sealcar_server.service.metering import UNMETERED, Meter, timed
from sealcar_server.service.rollback import Sighting

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.values import SealRecord
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.finding import Found
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.pinning import Pinning
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.rollback import Seen
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.interface import Store


class Opener:
    """Opens generations; safe to share between threads.

    Args:
        store: where they lie.
        keyring: unwraps their keys.
        seen: what this daemon has seen before.
        pointers: which versions are current, and which were shredded.
        remembered: keeps the last ones that were opened.
        pins: say how old one may be.
        meter: is told the seconds of "open" and "key".
    """

    def __init__(  # noqa: PLR0913  (what it works with)
        self,
        store: Store,
        keyring: Custody,
        seen: Seen,
        pointers: Pointers,
        *,
        remembered: Remembered,
        pins: Pinning,
        meter: Meter = UNMETERED,
    ) -> None:
        self._store, self._keyring, self._seen, self._pointers = store, keyring, seen, pointers
        self._remembered, self._meter = remembered, meter
        self.pins: Final = pins
        self._meaning = Meaning(store, seen, pointers, pins)

    def open(self, name: str, version: str = "", number: int = 0) -> OpenedPackage:
        """Open a generation; an empty version is the current one, number 0 the newest.

        Raises:
            NotFoundError: there is none.
            RequestError, DamagedError, KeyRefusedError, KeyUnavailableError: a check failed.
        """
        names.store_name(name)
        with during("open", package=name, version=version, generation=number):
            version, least = self._meaning.version(name, version)
        with during("open", package=name, version=version, generation=number):
            number = number or self._meaning.newest(name, version, least)
            self.pins.check(name, version, number)
            found = self._remembered.get((name, version, number))
            if found is None:
                return self._load(name, version, number)
            self._keyring.admit(found.record.kek_alias, found.record.kek_version)
            return found

    def again(self, opened: OpenedPackage) -> OpenedPackage:
        """Open a generation as it lies there now, whatever is remembered; raises as `open` does."""
        place = opened.place.name, opened.place.version, opened.place.number
        self._remembered.forget(place)
        return self.open(*place)

    def look(self, name: str, version: str = "", number: int = 0) -> Found:
        """Return what the store has without asking for a key: to be shown, never acted upon.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: no sealcar wrote it, or not for this place.
            RolledBackError: it is older than what was seen before.
        """
        place = self.place(name, version, number)
        with during("open", package=name, version=place.version, generation=place.number):
            found = find(place)
            check_place(found.record, place)
            return found

    def place(self, name: str, version: str = "", number: int = 0) -> Generation:
        """Return where a generation lies, without asking for a key.

        Raises:
            NotFoundError: there is none.
            RolledBackError: a newer one was seen before.
        """
        names.store_name(name)
        with during("open", package=name, version=version, generation=number):
            version, least = self._meaning.version(name, version, even_locked=True)
            if self._pointers.tombstones.raised(name, version):
                raise NotFoundError("the package was shredded")
            number = number or self._meaning.newest(name, version, least)
            return self._store.generation(name, version, number)

    def prove(self, found: Found) -> None:
        """Make sure of a record, whatever the manifest around it says.

        Raises:
            NotAuthenticError: the holder of the key didn't write it, or not for this place.
            RolledBackError: it doesn't follow on what was seen before.
            KeyRefusedError, KeyUnavailableError: the package's key can't be had.
        """
        with self._unwrap(found.record) as keys:
            found.authenticate(keys)
            key = keys.fingerprint()
        self._check_seen(found.opened(agreement.Differences()), key)

    def edited(self, name: str, version: str) -> Found:
        """Return the newest generation by an authentic record, whatever its manifest says by now.

        Raises:
            UnknownFormatError: the manifest has no record.
            NotFoundError, DamagedError, KeyRefusedError, KeyUnavailableError: as `open`.
        """
        place = self.place(name, version)
        with during("open", package=name, version=version, generation=place.number):
            found = find(place)
            self.prove(found)
            return found

    def remembered(self, name: str, version: str, number: int) -> OpenedPackage | None:
        """Return what `open` would find at once; None of what isn't named exactly."""
        return self._remembered.get((name, version, number))

    def keys(self, opened: OpenedPackage) -> PackageKeys:
        """Return the package's keys, which the caller closes.

        Raises:
            KeyRefusedError: the configuration has no such key, or it isn't this package's.
            KeyUnavailableError: the key provider can't be reached.
        """
        return self._unwrap(opened.record)

    def ask(self, opened: OpenedPackage) -> None:
        """Make sure that the package's key may be had now; raises as `keys` does."""
        self.keys(opened).close()

    def payload_key(
        self, opened: OpenedPackage, component: str, variant: str, name: str
    ) -> PayloadKey:
        """Return the key of one payload; raises as `keys` does."""
        with self.keys(opened) as keys:
            return keys.variant(component, variant, name)

    def saw(self, place: Generation, digest: bytes, key: bytes) -> None:
        """Remember an authentic generation: nothing older is newest from now on.

        Args:
            place: of it.
            digest: of its record.
            key: fingerprint of its package's key, as any generation has to have from now on.
        """
        self._seen.saw(place.name, place.version, Sighting(place.number, digest, key=key))

    def _load(self, name: str, version: str, number: int) -> OpenedPackage:
        with timed(self._meter, "open"):
            self._pointers.tombstones.refuse(name, version)
            found = find(self._store.generation(name, version, number))
            with self._unwrap(found.record) as keys:
                found.authenticate(keys)
                key = keys.fingerprint()
            opened = found.agreed()
            self._check_seen(opened, key)
            self.saw(opened.place, opened.digest, key)
        self._remembered.put(opened)
        return opened

    def _check_seen(self, opened: OpenedPackage, key: bytes) -> None:
        name, version = opened.place.name, opened.place.version
        seen = self._seen.package(name, version)
        try:
            self._check_after(opened, seen, key)
        except (NotAuthenticError, RolledBackError):
            # another daemon may have removed what was seen before
            self._pointers.departures.settle(name, version)
            now = self._seen.package(name, version)
            if now == seen:
                raise
            self._check_after(opened, now, key)

    def _check_after(self, opened: OpenedPackage, seen: Sighting | None, key: bytes) -> None:
        check_history(self._store, opened, seen)
        check_key(seen, key)

    def _unwrap(self, sealed: SealRecord) -> PackageKeys:
        wrapped = WrappedKey(sealed.kek_version, sealed.wrapped)
        context = package_context(sealed.package_id)
        with timed(self._meter, "key"), during("key"):
            root = self._keyring.unwrap(sealed.kek_alias, wrapped, context)
        return PackageKeys(root, sealed.package_id)
