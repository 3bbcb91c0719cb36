"""Has the models of an import looked at before it is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar_server.service import manifest
from sealcar_server.service.checking import Staged
from sealcar_server.service.serving import reader_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.sealing.derivation import PackageKeys, PayloadKey
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.service.checking import ModelChecker
    from sealcar_server.service.incoming import Incoming
    from sealcar_server.store.interface import Staging


class ImportCheck:
    """One import whose payloads have come, and whose assets aren't settled yet.

    Args:
        incoming: everything that came.
        staging: where it lies.
        keys: of the package.
        admit: raises once nothing of it may be opened any more.
    """

    def __init__(
        self,
        incoming: Incoming,
        staging: Staging,
        keys: PackageKeys,
        admit: Callable[[], None],
    ) -> None:
        self._incoming, self._staging, self._keys = incoming, staging, keys
        self._admit = admit

    def run(self, checker: ModelChecker, prepared: manifest.Object, scratch: Scratch) -> None:
        """Return if all models may be published.

        Args:
            checker: looks at them.
            prepared: the manifest, with the URIs under which the assets came.
            scratch: of the import.

        Raises:
            InvalidPackageError: a model refers to what isn't stored with it, or is none.
            LockedError, KeyRefusedError: the package's key isn't to be used any more.
            SealcarError: they can't be looked at.
        """
        staged = [
            Staged(variant.recorded(), *scope, executor_info=manifest.info(prepared, *scope))
            for scope, variant in self._incoming.variants.items()
        ]
        staged += [
            Staged([one.recorded(b"") for one in asset.arrived], asset=uri)
            for uri, asset in self._incoming.assets.items()
        ]
        checker.check(staged, self._open, scratch)

    def _open(self, owner: Staged, payload: RecordPayload, scratch: Scratch) -> SealedReader:
        self._admit()
        key, file = self._asset(owner, payload) if owner.asset else self._variant(owner, payload)
        return reader_of(file, key, payload, scratch)

    def _variant(self, owner: Staged, payload: RecordPayload) -> tuple[PayloadKey, SealedFile]:
        scope = (owner.component, owner.variant)
        key = self._keys.variant(*scope, payload.name)
        return key, self._staging.open_payload(*scope, payload.name)

    def _asset(self, owner: Staged, payload: RecordPayload) -> tuple[PayloadKey, SealedFile]:
        asset = self._incoming.assets[owner.asset]
        key = self._keys.asset(asset.key, asset.asset_id, payload.name)
        return key, self._staging.open_new_asset(asset.label, payload.name)
