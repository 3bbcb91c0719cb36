"""Seals a manifest that was edited in the store on purpose, as a new generation."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.errors import (
    ConflictError,
    InvalidRequestError,
    UnknownFormatError,
    WrongStateError,
)
from sealcar_server.access.audit.trail import UNAUDITED, Trail
from sealcar_server.access.policy import Right
from sealcar_server.sealing.agreement import differences, place_of_variant
from sealcar_server.service.composing import Lineage, compose
from sealcar_server.service.failing import during
from sealcar_server.service.linking import link_generation
from sealcar_server.service.vouching import vouched

if TYPE_CHECKING:
    from sealcar_server.access.policy import Rules
    from sealcar_server.access.principal import Principal
    from sealcar_server.sealing.agreement import Differences
    from sealcar_server.service.finding import Found
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.turns import Turns
    from sealcar_server.store.interface import Store

_SHA256 = 32


@dataclass(frozen=True)
class Resealed:
    """What was sealed anew, or would be.

    Attributes:
        generation: the new one; 0 if it was only looked.
        changed: JSON Pointers of what differs from what was sealed before.
        unsealed: JSON Pointers of variants whose payloads nobody sealed: not carried over.
        manifest_sha256: of the manifest that was looked at.
    """

    generation: int
    changed: tuple[str, ...]
    unsealed: tuple[str, ...]
    manifest_sha256: bytes


class Resealer:
    """Safe to share between threads.

    Args:
        policy: decides who may.
        store: where packages lie.
        opener: opens records.
        turns: of all who publish.
        remembered: forgets the edited generation, which stays refused.
        trail: accounts for every decision.
    """

    def __init__(
        self,
        policy: Rules,
        store: Store,
        opener: Opener,
        *,
        turns: Turns,
        remembered: Remembered,
        trail: Trail = UNAUDITED,
    ) -> None:
        self._policy, self._store, self._opener = policy, store, opener
        self._turns, self._remembered, self._trail = turns, remembered, trail

    def reseal(
        self, principal: Principal, name: str, version: str, manifest_sha256: bytes | None
    ) -> Resealed:
        """Vouch for what the newest generation's manifest says by now.

        Args:
            principal: who asks.
            name: of the package.
            version: empty: the current one.
            manifest_sha256: of the manifest that he looked at; None: only look what differs.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not reseal it.
            ConflictError: the manifest was changed since.
            WrongStateError: nothing differs.
            InvalidPackageError: what it says now can't be sealed.
            DamagedError: the record isn't authentic, or is gone.
            KeyRefusedError, KeyUnavailableError, ExhaustedError, StorageError: it can't be done.
        """
        asked = {"package": name, "version": version}
        dry = {"step": "look"} if manifest_sha256 is None else {}
        with (
            self._trail.decision(principal, Right.RESEAL, **asked, **dry) as entry,
            during("reseal", **asked),
        ):
            with during("open", **asked):
                names.store_name(name)
                entry.rule = self._policy.require(principal, Right.RESEAL, name)
                version = version or self._opener.place(name).version
            with self._turns.of(name, version):
                found = self._found(name, version)
                entry.resolved(version, found.place.number)
                entry.used(found.record.kek_alias, found.record.kek_version)
                entry.what |= {"manifest_sha256": found.sha256.hex()}
                with during("reseal", version=version, generation=found.place.number):
                    resealed = self._resealed(found, manifest_sha256)
            if resealed.generation:
                entry.what |= {"made": resealed.generation}
            return resealed

    def _found(self, name: str, version: str) -> Found:
        try:
            return self._opener.edited(name, version)
        except UnknownFormatError as error:
            number = self._store.newest(name, version)
            remedy = "put it back from a copy of this generation"
            if number > 1:
                remedy += f"; generation {number - 1} can be read by its number meanwhile"
            raise UnknownFormatError(f"{error.message}; {remedy}").at(generation=number) from None

    def _resealed(self, found: Found, manifest_sha256: bytes | None) -> Resealed:
        other = differences(found.record, found.manifest)
        changed = (*other.changed, *(place_of_variant(*scope) for scope in other.missing))
        unsealed = tuple(place_of_variant(*scope) for scope in other.unsealed)
        if manifest_sha256 is None:
            return Resealed(0, changed, unsealed, found.sha256)
        if len(manifest_sha256) != _SHA256:
            raise InvalidRequestError("the manifest's SHA-256 must have 32 bytes")
        if not hmac.compare_digest(manifest_sha256, found.sha256):
            raise ConflictError("the manifest was changed since it was looked at: look again")
        if not changed:
            raise WrongStateError("all that the seal record covers is as it was sealed")
        return Resealed(self._publish(found, other), changed, unsealed, found.sha256)

    def _publish(self, found: Found, other: Differences) -> int:
        sealed, place = found.record, found.place
        manifest = vouched(found.manifest, sealed)
        kept = tuple(
            item for item in sealed.variants if (item.component, item.variant) not in other.missing
        )
        payloads = {(item.component, item.variant): item.payloads for item in kept}
        before = replace(found.opened(other), record=replace(sealed, variants=kept))
        with (
            self._store.stage(place.name, place.version) as staging,
            self._opener.keys(before) as keys,
        ):
            link_generation(before, staging, "reseal")
            lineage = Lineage.after(sealed, found.digest)
            composed = compose(manifest, payloads, lineage, keys, sealed.assets)
            published = staging.publish(composed.manifest, place.number + 1)
        self._opener.saw(published, composed.digest, composed.key)
        # it was authentic when it was opened: from now on it is what its manifest says
        self._remembered.forget((place.name, place.version, place.number))
        return published.number
