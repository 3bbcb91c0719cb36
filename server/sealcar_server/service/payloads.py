"""Opens, reads and writes payloads for whoever the policy lets."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from sealcar import names
from sealcar.errors import InvalidRequestError, NotFoundError, SealcarError, WrongStateError
from sealcar_server.access.audit.trail import UNAUDITED, Entry, Trail
from sealcar_server.access.permit import Permit
from sealcar_server.access.policy import Right
from sealcar_server.sealing.layout import FIRST_PIECE
from sealcar_server.service import naming
from sealcar_server.service.failing import during, place_of
from sealcar_server.service.payload_source import PayloadSource
from sealcar_server.service.serving import open_reader, payload_value, variant_value
from sealcar_server.service.transactions import Transaction
from sealcar_server.service.values import OpenedVariant, ScopeKey

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.entrance import Entrance
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.publishing import Publisher
    from sealcar_server.service.quotas import Quotas
    from sealcar_server.service.registry import Registry, Session
    from sealcar_server.service.values import CommitValues
    from sealcar_server.store.interface import Store


class Payloads:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        opener: gives keys.
        store: where writes are staged.
        entrance: opens generations.
        publisher: makes transactions generations.
        registry: keeps transactions.
        quotas: of what is written.
        trail: accounts for every decision.
    """

    def __init__(  # noqa: PLR0913  (what it works with)
        self,
        policy: Rules,
        opener: Opener,
        store: Store,
        *,
        entrance: Entrance,
        publisher: Publisher,
        registry: Registry,
        quotas: Quotas,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._opener, self._store = policy, opener, store
        self._entrance, self._publisher, self._registry = entrance, publisher, registry
        self._quotas, self._trail = quotas, trail

    def judged_by(self, rules: Rules) -> Self:
        """Return the same under other rules."""
        other = copy.copy(self)
        other._policy = rules  # noqa: SLF001  (its own)
        return other

    @property
    def ttl(self) -> float:
        """Seconds without use after which a transaction without a session is aborted."""
        return self._registry.ttl

    def open(self, principal: Principal, scope: ScopeKey) -> OpenedVariant:
        """Resolve a scope and tell what is in it.

        Raises:
            NotFoundError: there is no such scope, or none that the caller may know of.
            DeniedError: the caller may not read it.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        with (
            during("open", **place_of(scope)),
            self._trail.decision(principal, Right.READ, **place_of(scope)) as entry,
        ):
            opened = self._package(principal, Right.READ, scope, entry)
            variant = opened.variant(scope.component, scope.variant)
            self._entrance.use(opened)
            return OpenedVariant(_resolved(scope, opened), variant_value(opened, variant))

    def read(
        self,
        principal: Principal,
        scope: ScopeKey,
        name: str,
        scratch: Scratch,
        *,
        at_once: bool = False,
    ) -> PayloadSource:
        """Open a payload of exactly one generation; nothing of it is visible before its checks.

        Args:
            principal: who reads.
            scope: of the payload.
            name: of the payload.
            scratch: for what is checked now.
            at_once: as `SealedReader`.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not read it.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed.
        """
        permit = self._permit(principal, Right.READ, scope)
        place = {**place_of(scope), "payload": name}
        with during("open", **place), contextlib.ExitStack() as unaccounted:
            with self._trail.decision(principal, Right.READ, **place) as entry:
                names.payload(name)
                opened = self._package(principal, Right.READ, scope, entry)
                resolved = _resolved(scope, opened)
                self._entrance.use(opened)
                self._entrance.bind(permit, opened)
                with during("open", payload=name, **place_of(resolved)):
                    held = opened.payload(scope.component, scope.variant, name)
                    reader = open_reader(self._opener, opened, held, scratch, at_once=at_once)
                unaccounted.callback(reader.close)
            unaccounted.pop_all()
        return PayloadSource(resolved, payload_value(held.payload, name), reader, permit)

    def at_hand(self, scope: ScopeKey, name: str) -> bool:
        """Tell whether opening a payload that is read at once is quick.

        It is if its very generation is open, and all of it one segment: of what is longer the end
        is read now, of this nothing that isn't small.
        """
        opened = self._opener.remembered(scope.package, scope.version, scope.generation)
        # of a bucket it may have to be fetched
        if opened is None or self._store.bucket:
            return False
        try:
            return opened.payload(scope.component, scope.variant, name).payload.size <= FIRST_PIECE
        except SealcarError:
            return True  # so is its refusal

    def begin(
        self, principal: Principal, scope: ScopeKey, session: Session | None = None
    ) -> Transaction:
        """Begin to write one variant.

        Raises:
            InvalidNameError: the variant's name breaks a rule.
            NotFoundError: package or component don't exist, or none that the caller may know of.
            DeniedError: the caller may not write it.
            ExhaustedError: too many transactions are open, or the disk is full.
        """
        place = place_of(scope)
        with (
            during("write", **place),
            self._trail.decision(principal, Right.WRITE, **place) as entry,
        ):
            naming.component(scope.component)
            naming.variant(scope.variant)
            opened = self._package(principal, Right.WRITE, scope, entry)
            if not opened.has_component(scope.component):
                raise NotFoundError(f"component {names.shown(scope.component)} doesn't exist")
            return self._begun(principal, _resolved(scope, opened), opened, session)

    def transaction(self, principal: Principal, transaction_id: bytes) -> Transaction:
        """Return a transaction of this principal; NotFoundError if there is none."""
        with during("write"):
            return self._registry.find(principal, transaction_id)

    def commit(self, principal: Principal, transaction_id: bytes, values: CommitValues) -> ScopeKey:
        """Publish a transaction; repeating it gives the first answer.

        Raises:
            NotFoundError: there is no such transaction of this principal.
            DeniedError: the caller may not write the package any more.
            InvalidRequestError, ConflictError, WrongStateError: see `Publisher.commit`.
            ExhaustedError, StorageError: nothing was published.
        """
        with during("publish"):
            transaction = self._registry.find(principal, transaction_id)
            scope = transaction.scope
        place = {**place_of(scope), "step": "commit"}
        with (
            during("publish", **place_of(scope)),
            self._trail.decision(principal, Right.WRITE, **place) as entry,
        ):
            entry.rule = self._policy.require(
                principal, Right.WRITE, scope.package, scope.component
            )
            try:
                committed = self._publisher.commit(
                    transaction,
                    values,
                    lambda part: self._policy.allows(principal, Right.READ, scope.package, part),
                )
                entry.resolved(committed.version, committed.generation)
                return committed
            finally:
                self._registry.settle(transaction)

    def abort(self, principal: Principal, transaction_id: bytes) -> None:
        """Throw a transaction away; fine if it is gone.

        Raises:
            WrongStateError: it is committed.
        """
        try:
            transaction = self._registry.find(principal, transaction_id)
        except NotFoundError:
            return
        if transaction.committed:
            raise WrongStateError("the transaction is committed").at(
                phase="write", **place_of(transaction.scope)
            )
        try:
            transaction.abort()
        finally:
            self._registry.settle(transaction)

    def writing(self, principal: Principal, transaction: Transaction) -> Permit:
        """Return what tells, while a payload comes in, whether the caller may still write it.

        Raises:
            WrongStateError: the transaction has ended.
        """
        permit = self._permit(principal, Right.WRITE, transaction.scope)
        permit.bind_key(partial(self._opener.ask, transaction.base))
        return permit

    def revoke(self) -> int:
        """Abort the transactions of those who may not write any more; return how many."""
        return self._registry.revoke(lambda one: not self._may_write(one))

    def expire(self) -> int:
        """Abort transactions that nobody uses any more; return how many."""
        return self._registry.expire()

    def close(self) -> None:
        """Abort every open transaction."""
        self._registry.close()

    def _may_write(self, transaction: Transaction) -> bool:
        principal, scope = transaction.principal, transaction.scope
        try:
            return self._policy.allows(principal, Right.WRITE, scope.package, scope.component)
        except SealcarError:
            return False

    def _begun(
        self,
        principal: Principal,
        scope: ScopeKey,
        base: OpenedPackage,
        session: Session | None,
    ) -> Transaction:
        room = self._quotas.claim(scope.package)
        staging = self._store.stage(scope.package, scope.version)
        transaction = Transaction(
            principal, scope, base, opener=self._opener, staging=staging, room=room
        )
        try:
            self._registry.add(transaction, session)
        except BaseException:
            transaction.abort()
            raise
        return transaction

    def _permit(self, principal: Principal, right: Right, scope: ScopeKey) -> Permit:
        return Permit(self._policy, principal, right, scope.package, scope.component)

    def _package(
        self, principal: Principal, right: Right, scope: ScopeKey, entry: Entry
    ) -> OpenedPackage:
        with during("open", **place_of(scope)):
            names.store_name(scope.package)
            if not scope.component or not scope.variant:
                raise InvalidRequestError("a scope needs a component and a variant")
            entry.rule = self._policy.require(principal, right, scope.package, scope.component)
            place = (scope.package, scope.version, scope.generation)
            return self._entrance.open(right, place, entry)


def _resolved(scope: ScopeKey, opened: OpenedPackage) -> ScopeKey:
    place = opened.place
    if (scope.version, scope.generation) == (place.version, place.number):
        return scope
    return replace(scope, version=place.version, generation=place.number)
