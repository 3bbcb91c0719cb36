"""Equal shared assets are stored once: an import takes over the files that another package has.

Only packages under the same alias share, and only what is proven: the other package's authentic
record has the keyed digests of this very plaintext, and the files that it has are whole.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import InvalidPackageError, SealcarError, StorageError
from sealcar.modelpackage import PackageError
from sealcar.modelpackage.hashing import hash_folder
from sealcar_server.sealing.values import RecordAsset, RecordPayload
from sealcar_server.service.asset_index import AssetEntry
from sealcar_server.store.generation import asset_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.service.asset_index import AssetIndex
    from sealcar_server.service.incoming import IncomingAsset
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.interface import Staging

_log: Final = structlog.get_logger("sealcar.assets")


class Sharing:
    """Gives the assets of imports their place; safe to share between threads.

    Args:
        index: says where an equal one may lie.
        opener: opens the package that has it.
    """

    def __init__(self, index: AssetIndex, opener: Opener) -> None:
        self._index, self._opener = index, opener

    def settle(
        self, assets: Collection[IncomingAsset], keys: PackageKeys, staging: Staging, alias: str
    ) -> dict[str, RecordAsset]:
        """Name assets that are complete by their ciphertext, or take over equal ones' files.

        Args:
            assets: of an import.
            keys: of its package.
            staging: where they lie.
            alias: of the key-encryption key.

        Returns:
            What the record says of them, by the URIs of their plaintext.

        Raises:
            InvalidPackageError: one isn't what its URI names.
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
            ExhaustedError, StorageError: one can't be written, or not be read again.
        """
        for asset in assets:
            asset.check()
        return {asset.uri: self._settled(_Wanted(asset, keys, staging, alias)) for asset in assets}

    def note(
        self,
        assets: Collection[IncomingAsset],
        sealed: Mapping[str, RecordAsset],
        place: Generation,
        alias: str,
    ) -> None:
        """Tell the index of those that were published and aren't another package's."""
        for asset in assets:
            found = sealed[asset.uri]
            if found.asset_id == asset.asset_id:
                entry = AssetEntry(place.name, place.version, place.number, found.uri)
                self._index.put(alias, asset.uri, entry)

    def _settled(self, wanted: _Wanted) -> RecordAsset:
        found = self._index.find(wanted.alias, wanted.asset.uri)
        if found is not None:
            try:
                return self._taken_over(wanted, found)
            except SealcarError as error:
                _log.info("a shared asset is stored once more", reason=str(error), uri=found.uri)
        return wanted.named()

    def _taken_over(self, wanted: _Wanted, found: AssetEntry) -> RecordAsset:
        other = self._opener.open(found.name, found.version)
        for candidate in other.record.assets:
            if candidate.uri == found.uri and other.record.kek_alias == wanted.alias:
                return self._take_over(wanted, other, candidate)
        raise InvalidPackageError("the package that had an equal one hasn't got it any more")

    def _take_over(
        self, wanted: _Wanted, other: OpenedPackage, candidate: RecordAsset
    ) -> RecordAsset:
        with self._opener.keys(other) as keys:
            wanted.check(candidate, keys)
            with keys.unwrap_asset(candidate.wrapped, candidate.asset_id) as key:
                wrapped = wanted.keys.wrap_asset(key, candidate.asset_id)
        wanted.link(candidate, other.place)
        return RecordAsset(candidate.uri, candidate.asset_id, wrapped, wanted.payloads(candidate))


@dataclass(frozen=True)
class _Wanted:
    """An asset of an import, for which an equal one's files may do."""

    asset: IncomingAsset
    keys: PackageKeys
    staging: Staging
    alias: str

    def named(self) -> RecordAsset:
        """Name it by its own ciphertext."""
        asset, keys = self.asset, self.keys
        uri = _hash(self.staging, asset.label)
        self.staging.name_asset(asset.label, uri)
        payloads = tuple(
            one.recorded(keys.asset_digest(asset.asset_id, one.name, one.sha256))
            for one in asset.arrived
        )
        wrapped = keys.wrap_asset(asset.key, asset.asset_id)
        return RecordAsset(uri, asset.asset_id, wrapped, payloads)

    def check(self, candidate: RecordAsset, keys: PackageKeys) -> None:
        """Make sure that it has the same plaintext, by the keys of the package that has it."""
        theirs = {payload.name: payload for payload in candidate.payloads}
        if theirs.keys() != {one.name for one in self.asset.arrived}:
            raise InvalidPackageError("the one in the index has other files")
        for one in self.asset.arrived:
            payload = theirs[one.name]
            digest = keys.asset_digest(candidate.asset_id, one.name, one.sha256)
            same = payload.sealed and payload.size == one.size
            if not same or not hmac.compare_digest(digest, payload.digest):
                raise InvalidPackageError("the one in the index has another content")

    def link(self, candidate: RecordAsset, place: Generation) -> None:
        """Put its files in the place of those that arrived."""
        folder = asset_folder(candidate.uri)
        try:
            for one in self.asset.arrived:
                self.staging.link_asset(place, candidate.uri, one.name)
            self._check_whole(candidate)
        except BaseException:
            self.staging.remove_asset(folder)
            raise
        self.staging.remove_asset(self.asset.label)

    def _check_whole(self, candidate: RecordAsset) -> None:
        if _hash(self.staging, asset_folder(candidate.uri)) != candidate.uri:
            raise StorageError("the files of the one in the index are damaged")

    def payloads(self, candidate: RecordAsset) -> tuple[RecordPayload, ...]:
        """Return what this package's record says: kinds as it was told, digests of its own."""
        commitments = {payload.name: payload.commitment for payload in candidate.payloads}
        digest = self.keys.asset_digest
        return tuple(
            RecordPayload(
                one.name,
                one.kind,
                one.size,
                commitment=commitments[one.name],
                digest=digest(candidate.asset_id, one.name, one.sha256),
            )
            for one in self.asset.arrived
        )


def _hash(staging: Staging, label: str) -> str:
    try:
        with staging.enter_asset(label) as folder:
            return hash_folder(folder.fd)
    except PackageError as error:
        raise StorageError(f"a shared asset can't be read again: {error}") from error
