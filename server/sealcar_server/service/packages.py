"""The catalogue: which packages there are, what is in them, and how they come in."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import DamagedError, NotAuthenticError, NotFoundError, StorageError
from sealcar_server.access.audit.trail import UNAUDITED, Entry, Trail
from sealcar_server.access.permit import Permit
from sealcar_server.access.policy import Right
from sealcar_server.sealing import record
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.failing import during
from sealcar_server.service.importing import ImportSession
from sealcar_server.service.metering import UNMETERED, Meter, timed
from sealcar_server.service.serving import variant_value
from sealcar_server.service.values import PackageDetail, PackageSummary, VariantValue
from sealcar_server.service.verifying import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.sealing.values import SealRecord
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.pointer import Pointers
    from sealcar_server.service.values import Imported, ImportPlan, Verified
    from sealcar_server.store.local import LocalStore

MAX_PAGE: Final = 1000


class Packages:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        store: where packages lie.
        keyring: wraps the keys of new ones.
        opener: opens generations.
        pointers: which versions are current.
        meter: is told the seconds of "seal" and "verify".
        trail: accounts for every decision.
    """

    def __init__(  # noqa: PLR0913  (what it works with)
        self,
        policy: Rules,
        store: LocalStore,
        keyring: Custody,
        *,
        opener: Opener,
        pointers: Pointers,
        meter: Meter = UNMETERED,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._store, self._keyring = policy, store, keyring
        self._trail = trail
        self._opener, self._pointers, self._meter = opener, pointers, meter

    def list(
        self,
        principal: Principal,
        prefix: str = "",
        after: tuple[str, str] = ("", ""),
        limit: int = MAX_PAGE,
    ) -> list[PackageSummary]:
        """Return what the caller may list, by name, then version, of what follows `after`.

        Nothing of it is authenticated, since no key is asked for. A package that can't be read is
        listed with zeros.

        Raises:
            StorageError: the store can't be read.
        """
        limit = min(limit or MAX_PAGE, MAX_PAGE)
        found: list[PackageSummary] = []
        with (
            during("list"),
            self._trail.decision(principal, Right.LIST, prefix=f"{prefix}*") as entry,
        ):
            entry.rule = "each package by itself"
            for name, version in self._places(principal, prefix, after):
                found.append(self._summary(name, version))
                if len(found) == limit:
                    break
        return found

    def get(
        self, principal: Principal, name: str, version: str = "", generation: int = 0
    ) -> PackageDetail:
        """Return one package, authenticated, as far as the caller may list its components.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        place = (name, version, generation)
        with self._trail.decision(principal, Right.LIST, **_names(place)) as entry:
            opened = self._opened(principal, Right.LIST, place, entry)
        sealed = opened.record
        description = opened.manifest.get("description", "")
        return PackageDetail(
            summary=_summarise(sealed, self._pointers.claimed(name) == sealed.version),
            package_id=sealed.package_id,
            kek_alias=sealed.kek_alias,
            kek_version=sealed.kek_version,
            variants=tuple(
                variant
                for variant in _variants(opened)
                if self._policy.allows(principal, Right.LIST, name, variant.component)
            ),
            description=description if isinstance(description, str) else "",
        )

    def import_(self, principal: Principal, plan: ImportPlan) -> ImportSession:
        """Begin to take a package in.

        Raises:
            NotFoundError, DeniedError: the caller may not import it.
            InvalidNameError, InvalidPackageError: name or manifest breaks a rule.
            AlreadyExistsError: the version was imported before.
            KeyRefusedError, KeyUnavailableError: its key can't be wrapped.
            ExhaustedError, StorageError: nothing can be staged.
        """
        place = {"package": plan.name, "version": plan.version}
        with during("import", **place), ExitStack() as unaccounted:
            with self._trail.decision(principal, Right.IMPORT, **place) as entry:
                names.store_name(plan.name)
                entry.rule = self._policy.require(principal, Right.IMPORT, plan.name)
                session = ImportSession(
                    plan,
                    store=self._store,
                    keyring=self._keyring,
                    opener=self._opener,
                    pointers=self._pointers,
                    meter=self._meter,
                )
                unaccounted.callback(session.abort)
            unaccounted.pop_all()
            return session

    def publish(self, principal: Principal, session: ImportSession, payloads: int) -> Imported:
        """End an import: what came in becomes a package.

        Raises:
            NotFoundError, DeniedError: the caller may not import it any more.
            SealcarError: see `ImportSession.finish`.
        """
        place = {"package": session.name, "version": session.version}
        with self._trail.decision(principal, Right.IMPORT, **place, step="publish") as entry:
            entry.rule = self._policy.require(principal, Right.IMPORT, session.name)
            imported = session.finish(payloads)
            entry.resolved(imported.version, imported.generation)
            return imported

    def verify(
        self,
        principal: Principal,
        name: str,
        version: str,
        generation: int,
        progress: Callable[[int, int, str], None],
    ) -> Verified:
        """Read every byte of a package and check it against the seal record.

        Args:
            principal: who asks.
            name: of the package.
            version: empty: the current one.
            generation: 0: the newest.
            progress: is told bytes done, bytes in all and the payload, about once a mebibyte;
                what it raises ends the work.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not verify it, or not any more.
            DamagedError: of the first payload that isn't what it should be.
            KeyRefusedError, KeyUnavailableError, StorageError: it can't be checked.
        """
        permit = Permit(self._policy, principal, Right.VERIFY, name)

        def permitted(done: int, total: int, payload: str) -> None:
            permit.check()
            progress(done, total, payload)

        place = (name, version, generation)
        with self._trail.decision(principal, Right.VERIFY, **_names(place)) as entry:
            opened = self._opened(principal, Right.VERIFY, place, entry)
            with timed(self._meter, "verify"):
                return verify(self._opener, opened, permitted)

    def importing(self, principal: Principal, name: str) -> Permit:
        """Return what tells, while a package comes in, whether the caller may still import it."""
        return Permit(self._policy, principal, Right.IMPORT, name)

    def _opened(
        self, principal: Principal, right: Right, place: tuple[str, str, int], entry: Entry
    ) -> OpenedPackage:
        name, version, generation = place
        with during("open", **_names(place)):
            names.store_name(name)
            entry.rule = self._policy.require(principal, right, name)
            opened = self._opener.open(name, version, generation)
            entry.resolved(opened.place.version, opened.place.number)
            entry.used(opened.record.kek_alias, opened.record.kek_version)
            return opened

    def _places(
        self, principal: Principal, prefix: str, after: tuple[str, str]
    ) -> Iterator[tuple[str, str]]:
        for name in self._store.names():
            if name < after[0] or not name.startswith(prefix):
                continue
            if self._policy.allows(principal, Right.LIST, name):
                places = ((name, version) for version in self._store.versions(name))
                yield from (place for place in places if place > after)

    def _summary(self, name: str, version: str) -> PackageSummary:
        current = self._pointers.claimed(name) == version
        number = 0
        try:
            number = self._store.newest(name, version)
            raw = self._store.generation(name, version, number).manifest()
            text, _ = record.open_envelope(strict_json(raw, error=NotAuthenticError))
            summary = _summarise(record.parse(text), current)
        except (DamagedError, NotFoundError, StorageError):
            return PackageSummary(name, version, number, current, 0, 0, 0, 0)
        # the place is believed, not the record: it hasn't been authenticated
        return replace(summary, name=name, version=version, generation=number)


def _names(place: tuple[str, str, int]) -> dict[str, str | int]:
    return {"package": place[0], "version": place[1], "generation": place[2]}


def _summarise(sealed: SealRecord, current: bool) -> PackageSummary:  # noqa: FBT001  (a field)
    payloads = [payload for variant in sealed.variants for payload in variant.payloads]
    return PackageSummary(
        name=sealed.name,
        version=sealed.version,
        generation=sealed.generation,
        current=current,
        components=len(sealed.components),
        variants=len(sealed.variants),
        payloads=len(payloads),
        size=sum(payload.size for payload in payloads),
    )


def _variants(opened: OpenedPackage) -> tuple[VariantValue, ...]:
    sealed = tuple(variant_value(opened, variant) for variant in opened.record.variants)
    return sealed + tuple(VariantValue(*scope, sealed=False) for scope in opened.unsealed)
