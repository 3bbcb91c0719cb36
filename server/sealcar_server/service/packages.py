"""How packages come in, and whether every byte of them is authentic."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sealcar import names
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.permit import Permit
from sealcar_server.access.policy import Right
from sealcar_server.service.failing import during
from sealcar_server.service.metering import UNMETERED, Meter, timed

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.service.entrance import Entrance
    from sealcar_server.service.importers import Importers, Session
    from sealcar_server.service.values import Imported, ImportPlan, Verified
    from sealcar_server.service.verifying import Progress, Verifier


class Packages:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        importer: takes packages in.
        entrance: opens packages for callers.
        verifier: checks payloads.
        meter: is told the seconds of "verify".
        trail: accounts for every decision.
    """

    def __init__(
        self,
        policy: Rules,
        importer: Importers,
        *,
        entrance: Entrance,
        verifier: Verifier,
        meter: Meter = UNMETERED,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._importer = policy, importer
        self._entrance, self._trail = entrance, trail
        self._verifier, self._meter = verifier, meter

    def import_(self, principal: Principal, plan: ImportPlan) -> Session:
        """Begin to take a package in.

        Raises:
            NotFoundError, DeniedError: the caller may not import it.
            InvalidNameError, InvalidPackageError: name or manifest breaks a rule.
            AlreadyExistsError: the version, or this very generation, was imported before.
            DamagedError: a sealed export isn't what it should be, or older than what was seen.
            KeyRefusedError, KeyUnavailableError: its key can't be wrapped.
            ExhaustedError, StorageError: nothing can be staged.
        """
        place = {"package": plan.name, "version": plan.version}
        with during("import", **place), ExitStack() as unaccounted:
            with self._trail.decision(principal, Right.IMPORT, **place) as entry:
                names.store_name(plan.name)
                entry.rule = self._policy.require(principal, Right.IMPORT, plan.name)
                session = self._importer.begin(plan)
                if session.publisher:
                    entry.what["publisher"] = session.publisher
                unaccounted.callback(session.abort)
            unaccounted.pop_all()
            return session

    def publish(self, principal: Principal, session: Session, payloads: int) -> Imported:
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
        progress: Progress,
        token: str = "",
    ) -> Verified:
        """Read every byte of a package and check it against the seal record.

        Args:
            principal: who asks.
            name: of the package.
            version: empty: the current one.
            generation: 0: the newest.
            progress: is told how far it is.
            token: that `progress` was told by a check that was cut: goes on there.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not verify it, or not any more.
            InvalidRequestError, WrongStateError: the token isn't of this generation.
            DamagedError: of the first payload that isn't what it should be.
            KeyRefusedError, KeyUnavailableError, StorageError: it can't be checked.
        """
        permit = Permit(self._policy, principal, Right.VERIFY, name)

        def permitted(done: int, total: int, payload: str, token: str) -> None:
            permit.check()
            permit.renew()
            progress(done, total, payload, token)

        with (
            self._entrance.enter(principal, Right.VERIFY, (name, version, generation)) as opened,
            timed(self._meter, "verify"),
        ):
            self._entrance.bind(permit, opened)
            return self._verifier.verify(opened, permitted, token)

    def importing(self, principal: Principal, name: str) -> Permit:
        """Return what tells, while a package comes in, whether the caller may still import it."""
        return Permit(self._policy, principal, Right.IMPORT, name)
