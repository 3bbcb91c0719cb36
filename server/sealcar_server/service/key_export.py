"""Gives a variant's keys to a person, as a Tink keyset: the one way in which a key leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import NotFoundError, WrongStateError
from sealcar_server.sealing import tinkkeys
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.values import RecordAsset
from sealcar_server.service.failing import during, generation_place
from sealcar_server.service.serving import payload_key

if TYPE_CHECKING:
    from sealcar_server.access.audit.trail import Trail
    from sealcar_server.sealing.derivation import PackageKeys, PayloadKey
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.values import ScopeKey

_KEYSET: Final = "sealcar v1 tink keyset"
_log: Final = structlog.get_logger("sealcar.keys")


@dataclass(frozen=True)
class TinkPayload:
    """What a Tink needs for one payload, apart from the key.

    Attributes:
        name: as those call it who read it through the variant.
        path: of its file, relative to the generation's directory.
        associated_data: for Tink.
    """

    name: str
    path: str
    associated_data: bytes


@dataclass(frozen=True)
class KeyExport:
    """Keys that leave.

    Attributes:
        version, generation: what it came down to.
        keyset: in Tink's JSON format.
        kek_uri: of the key that it is encrypted under, as Tink writes it; empty: it isn't.
        associated_data: of that encryption.
        payloads: that the keyset opens.
    """

    version: str
    generation: int
    keyset: bytes = field(repr=False)
    kek_uri: str
    associated_data: bytes
    payloads: tuple[TinkPayload, ...]


class KeyExporter:
    """Safe to share between threads.

    Args:
        opener: opens packages, and gives their keys.
        custody: encrypts what leaves.
        trail: has a line that lasts before a key leaves.
    """

    def __init__(self, opener: Opener, custody: Custody, trail: Trail) -> None:
        self._opener, self._custody, self._trail = opener, custody, trail

    def export(self, scope: ScopeKey, kek: str) -> KeyExport:
        """Return the keys of a variant, and of the shared assets that it refers to.

        Args:
            scope: the variant; an empty version is the current one.
            kek: alias of a key at a service that Tink knows; empty: the keyset is clear.

        Raises:
            WrongStateError: no audit log is required, or Tink doesn't know that kind of key.
            NotFoundError: there is no such variant, or nothing of it is sealed.
            DamagedError, KeyRefusedError, KeyUnavailableError: it can't be believed or opened, or
                the service doesn't encrypt.
            StorageError: it can't be accounted for.
        """
        place = {"package": scope.package, "component": scope.component, "variant": scope.variant}
        with during("export-tink", version=scope.version, **place):
            if self._trail.log is None or not self._trail.log.required:
                raise WrongStateError('keys leave only where audit.mode is "required"')
            opened = self._opener.open(scope.package, scope.version, scope.generation)
            found = opened.variant(scope.component, scope.variant)
            sealed = [held for held in opened.seen_from(found) if held.payload.sealed]
            if not sealed:
                raise NotFoundError("none of its payloads is sealed")
            data = enc(_KEYSET, opened.record.package_id, scope.component, scope.variant)
            with self._opener.keys(opened) as keys:
                payloads, chosen = _described(keys, sealed)
            keyset, uri = self._written(chosen, kek, data)
            self._account(opened, scope, kek)
        number = opened.place.number
        return KeyExport(opened.place.version, number, keyset, uri, data if kek else b"", payloads)

    def _written(self, keys: list[PayloadKey], kek: str, data: bytes) -> tuple[bytes, str]:
        if not kek:
            return tinkkeys.clear_keyset(keys), ""
        sealed = self._custody.encrypt_for_tink(kek, tinkkeys.binary_keyset(keys), data)
        return tinkkeys.encrypted_keyset(len(keys), sealed.ciphertext), sealed.uri

    def _account(self, opened: OpenedPackage, scope: ScopeKey, kek: str) -> None:
        what: dict[str, str | int | bool | None] = {
            **generation_place(opened.place),
            "component": scope.component,
            "variant": scope.variant,
            "under": kek or None,
        }
        self._trail.note("key-export", **what)
        _log.warning("keys exported", **what)


def _described(
    keys: PackageKeys, sealed: list[Held]
) -> tuple[tuple[TinkPayload, ...], list[PayloadKey]]:
    """Return what each payload needs, and the different keys among theirs, in that order."""
    payloads: list[TinkPayload] = []
    chosen: dict[str, PayloadKey] = {}
    for held in sealed:
        key = payload_key(keys, held)
        payloads.append(TinkPayload(held.name, held.path(), key.associated_data))
        owner = held.owner.uri if isinstance(held.owner, RecordAsset) else ""
        chosen.setdefault(owner, key)
    return tuple(payloads), [*chosen.values()]
