"""Packages that somebody else sent: their payloads stay, their key is wrapped anew, for this store.

The sender is trusted no more than the publisher of a plain package is: the same rules hold for
names and manifest, and models are looked at before anything appears.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import NotAuthenticError, RolledBackError
from sealcar_server.keys.provider import WrappedKey, package_context, transit_context
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.service import manifest, naming
from sealcar_server.service.admitting import authentic
from sealcar_server.service.checking import Staged
from sealcar_server.service.composing import Lineage, compose
from sealcar_server.service.in_use import KeysInUse, Use
from sealcar_server.service.opened import Held
from sealcar_server.service.outgoing_manifest import plain_object
from sealcar_server.service.serving import payload_key, reader_of
from sealcar_server.service.transit import own_alias
from sealcar_server.service.values import Imported
from sealcar_server.store.generation import asset_folder

if TYPE_CHECKING:
    from sealcar_server.keys.signing import Publishers
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.service.checking import ModelChecker
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.finding import Found
    from sealcar_server.service.new_versions import NewVersions
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.values import ImportPlan
    from sealcar_server.store.interface import Staging, Store


@dataclass(frozen=True)
class Forwarded:
    """Takes them; safe to share between threads.

    Attributes:
        store, keyring: of the daemon.
        versions: lets new ones in.
        publishers: who may vouch for a package.
        checker: looks at the models before they are published.
    """

    store: Store
    keyring: Custody
    versions: NewVersions
    publishers: Publishers
    checker: ModelChecker

    def arrival(self, plan: ImportPlan, found: Found) -> ForwardedArrival:
        """Check a package's record, and that it is for us; raises as `SealedImporter.begin`."""
        sent = found.record
        signature = record.open_signature(found.manifest)
        self.publishers.check(signature, record.signed_text(found.text))
        _check_date(found)
        name, version = plan.name, plan.version or sent.version
        number = self.versions.number(name, version)
        came = self._use(found)
        root = self.keyring.unwrap(came.alias, came.wrapped, came.context)
        with ExitStack() as undo:
            keys = undo.enter_context(PackageKeys(root, sent.package_id))
            opened = authentic(found, keys)
            _check_names(opened)
            prepared = manifest.prepare(_unsealed(opened))
            alias = plan.kek_alias or self.store.identity.kek_alias
            context = package_context(sent.package_id)
            own = self.keyring.wrap(alias, root, context)
            undo.pop_all()
        lineage = Lineage(name, version, sent.package_id, number, b"", alias, own.version, own.blob)
        arrival = ForwardedArrival(self, opened, keys, prepared, lineage)
        arrival.in_use = KeysInUse(self.keyring, (came, Use(alias, own, context)))
        arrival.publisher = signature.publisher.hex() if signature else ""
        return arrival

    def _use(self, found: Found) -> Use:
        sent = found.record
        return Use(
            own_alias(self.keyring, sent.kek_alias),
            WrappedKey(sent.kek_version, sent.wrapped),
            transit_context(sent.package_id, sent.kek_alias),
        )


class ForwardedArrival:
    """One of them, as an `Arrival`."""

    publisher = ""
    in_use: KeysInUse

    def __init__(
        self,
        forwarded: Forwarded,
        opened: OpenedPackage,
        keys: PackageKeys,
        prepared: manifest.Object,
        lineage: Lineage,
    ) -> None:
        self._with, self._manifest, self._lineage = forwarded, prepared, lineage
        self.opened, self.keys = opened, keys
        self.name, self.version = lineage.name, lineage.version

    def publish(self, staging: Staging, scratch: Scratch) -> Imported:
        """Seal the manifest anew, and make its version the current one."""
        own = self._lineage
        self._check_models(staging, scratch)
        sent = self.opened.record
        payloads = {(item.component, item.variant): item.payloads for item in sent.variants}
        composed = compose(self._manifest, payloads, own, self.keys, sent.assets)
        self._with.versions.publish(staging, composed, own)
        return Imported(own.name, own.version, own.generation, own.package_id)

    def _check_models(self, staging: Staging, scratch: Scratch) -> None:
        sent = self.opened.record
        owners = {(item.component, item.variant, ""): item for item in sent.variants} | {
            ("", "", item.uri): item for item in sent.assets
        }
        staged = [
            Staged(
                item.payloads,
                item.component,
                item.variant,
                executor_info=manifest.info(self._manifest, item.component, item.variant),
            )
            for item in sent.variants
        ]
        staged += [Staged(item.payloads, asset=item.uri) for item in sent.assets]

        def opening(owner: Staged, payload: RecordPayload, own: Scratch) -> SealedReader:
            self.in_use.admit()
            held = Held(owners[owner.component, owner.variant, owner.asset], payload)
            key = payload_key(self.keys, held)
            if owner.asset:
                file = staging.open_new_asset(asset_folder(owner.asset), payload.name)
            else:
                file = staging.open_payload(owner.component, owner.variant, payload.name)
            return reader_of(file, key, payload, own)

        self._with.checker.check(staged, opening, scratch)


def _check_date(found: Found) -> None:
    transit = found.record.transit
    if transit is not None and transit.not_after and time.time() > transit.not_after:
        raise RolledBackError("the package is too old: its sender wants nobody to take it now")


def _unsealed(opened: OpenedPackage) -> str:
    # as small as it gets: it is held to the limits of a manifest that comes in
    return json.dumps(plain_object(opened, {}), separators=(",", ":"), ensure_ascii=False)


def _check_names(opened: OpenedPackage) -> None:
    """Hold names of payloads to the rules of an import."""
    sent = opened.record
    for item in sent.variants:
        naming.component(item.component)
        naming.variant(item.variant)
    owners = [item.payloads for item in sent.variants] + [item.payloads for item in sent.assets]
    for payloads in owners:
        names = naming.NameSet()
        for payload in payloads:
            naming.payload(payload.name, payload.kind)
            names.claim(payload.name)
    if any(not item.payloads for item in sent.assets):
        raise NotAuthenticError("a shared asset of the package has no payload")
