"""Which sealed generations come in from outside: none that would take the store back or apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidPackageError,
    RolledBackError,
    UnknownFormatError,
    WrongStateError,
)
from sealcar_server.service.history import check_history, check_key
from sealcar_server.service.opened import every_payload
from sealcar_server.service.outgoing_manifest import refuse_missing

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.service.finding import Found
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.rollback import Seen
    from sealcar_server.service.tombstones import Tombstones
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.interface import Store


MOST: Final = 10**15  # the store has room for a thousand times as many


@dataclass(frozen=True)
class Admission:
    """Decides; safe to share between threads.

    Attributes:
        store, opener, seen, tombstones: of the daemon.
    """

    store: Store
    opener: Opener
    seen: Seen
    tombstones: Tombstones

    def check(self, opened: OpenedPackage, keys: PackageKeys) -> None:
        """Return if a generation may take its place in the store.

        Args:
            opened: authentic, and not in the store.
            keys: of its package.

        Raises:
            WrongStateError: its version was shredded.
            AlreadyExistsError: the store has this generation.
            InvalidPackageError: hardly any number is left to follow on its own.
            RolledBackError: it is older than what was seen or is pinned, or doesn't follow on it.
            ConflictError: the version is another package's.
            NotAuthenticError: it is under another key than the package that was seen.
        """
        name, version, number = opened.place.name, opened.place.version, opened.place.number
        if self.tombstones.raised(name, version):
            raise WrongStateError(f"version {version} was shredded: import under another version")
        if number > MOST:
            raise InvalidPackageError(f"generation {number} is over {MOST}, the most that is taken")
        numbers = self.store.numbers(name, version)
        if number in numbers:
            raise AlreadyExistsError(f"the store has generation {number}")
        self.opener.pins.check(name, version, number)
        self._refuse_old(opened, max(numbers, default=0))
        check_history(self.store, opened, self.seen.package(name, version))
        if self.store.newest(name, version):
            package_id = self.opener.open(name, version).record.package_id
            if package_id != opened.record.package_id:
                raise ConflictError(f"version {version} is another package of the same name")
        check_key(self.seen.package(name, version), keys.fingerprint())

    def _refuse_old(self, opened: OpenedPackage, newest: int) -> None:
        number = opened.place.number
        seen = self.seen.package(opened.place.name, opened.place.version)
        if seen and number <= seen.removed:
            raise RolledBackError(f"generation {number} was removed from here")
        newest = max(newest, seen.generation if seen else 0)
        if number < newest:
            raise RolledBackError(f"generation {number} is older than {newest}, which was seen")


def check_asked(plan: ImportPlan, found: Found) -> None:
    """Raise InvalidPackageError if an export is to become what it isn't."""
    record = found.record
    own = f"{record.name}@{record.version}"
    if plan.name != record.name or plan.version not in ("", record.version):
        raise InvalidPackageError(f"a sealed export keeps its name and version, {own}")
    if plan.kek_alias not in ("", record.kek_alias):
        raise InvalidPackageError(
            f"a sealed export keeps its key, {record.kek_alias}: rewrap it once it is imported"
        )


def authentic(found: Found, keys: PackageKeys) -> OpenedPackage:
    """Return a generation from outside, its record and manifest checked.

    Raises:
        NotAuthenticError, TruncatedError: they aren't what was sealed.
        UnknownFormatError: this release doesn't take such payloads.
    """
    found.authenticate(keys)
    opened = found.agreed()
    refuse_missing(opened.missing)
    if not all(held.payload.sealed for held in every_payload(opened)):
        raise UnknownFormatError("a payload is stored in plain: this release takes sealed ones")
    return opened
