"""Where an equal shared asset lies already: one small file for each, of the store as a whole.

Its name is a keyed hash of what is in the asset and of the alias whose packages may share it, so
who reads the disk can't look a known file up. What it says is authenticated and is still only a
hint: whoever follows it checks what he finds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import DamagedError, NotAuthenticError, SealcarError, StorageError
from sealcar_server.sealing.fields import Fields
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import tagged
from sealcar_server.store.places import store_package, store_version

if TYPE_CHECKING:
    from sealcar_server.service.store_key import StoreKey
    from sealcar_server.store.interface import Store

_WHAT: Final = "an entry of the index of assets"
_log: Final = structlog.get_logger("sealcar.assets")


@dataclass(frozen=True)
class AssetEntry:
    """Where a shared asset was when the entry was written.

    Attributes:
        name, version, generation: of the package.
        uri: of the asset there: that of its ciphertext.
    """

    name: str
    version: str
    generation: int
    uri: str


class AssetIndex:
    """Safe to share between threads."""

    def __init__(self, store: Store, key: StoreKey) -> None:
        self._store, self._key = store, key

    def find(self, alias: str, uri: str) -> AssetEntry | None:
        """Return where an asset with this plaintext lies; None if nobody knows, or lied.

        Raises:
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
        """
        with self._key.open() as keys:
            label = keys.asset_label(alias, uri)
            try:
                data = self._store.read_asset_entry(label)
                if data is None:
                    return None
                text, tag = tagged.parsed(data, _WHAT)
                keys.verify_tag(text, tag)
                return _parsed(text, label)
            except (DamagedError, StorageError) as error:
                _log.warning("an entry of the index of assets isn't used", reason=str(error))
                return None

    def put(self, alias: str, uri: str, entry: AssetEntry) -> None:
        """Write where an asset with this plaintext lies, in place of what is there.

        A failure is only logged: equal assets are stored once more then.
        """
        try:
            with self._key.open() as keys:
                label = keys.asset_label(alias, uri)
                text = json.dumps({"label": label, **vars(entry)}, separators=(",", ":")).encode()
                data = tagged.tagged(text, keys)
            self._store.write_asset_entry(label, data)
        except SealcarError as error:
            _log.warning("the index of assets can't be written", reason=str(error))


def read_entry(data: bytes, label: str) -> AssetEntry:
    """Read an entry that nobody has authenticated; NotAuthenticError if it is none."""
    return _parsed(tagged.parsed(data, _WHAT)[0], label)


def _parsed(text: bytes, label: str) -> AssetEntry:
    fields = Fields(strict_json(text, _WHAT, error=NotAuthenticError), what=_WHAT)
    # so that an entry that was moved to another name says nothing
    if fields.text("label") != label:
        raise fields.wrong("is another entry's", "label")
    entry = AssetEntry(
        fields.text("name", store_package),
        fields.text("version", store_version),
        fields.integer("generation", 1),
        fields.text("uri"),
    )
    fields.end()
    return entry
