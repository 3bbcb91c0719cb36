"""What is left of a shredded package: its name, under the store's own key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import NotAuthenticError, NotFoundError
from sealcar_server.sealing.fields import Fields, b64
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import tagged

if TYPE_CHECKING:
    from sealcar_server.service.store_key import StoreKey
    from sealcar_server.store.interface import Store

_ID: Final = 16


@dataclass(frozen=True)
class Tombstone:
    """What a tombstone says.

    Attributes:
        name, version: of the package.
        package_id: as its newest record said; empty if that couldn't be read.
        generation: its newest; 0 if there was none any more.
    """

    name: str
    version: str
    package_id: bytes
    generation: int

    def serialise(self) -> bytes:
        """Return the bytes that are tagged."""
        value = {**vars(self), "package_id": b64(self.package_id)}
        if not self.package_id:
            del value["package_id"]
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Tombstone:
        """Read the tagged bytes; NotAuthenticError if they are no tombstone."""
        fields = Fields(strict_json(data, "tombstone", error=NotAuthenticError))
        made = cls(
            fields.text("name", names.store_name),
            fields.text("version", names.store_name),
            fields.optional("package_id", _ID),
            fields.integer("generation"),
        )
        fields.end()
        return made


class Tombstones:
    """Reads and writes tombstones; safe to share between threads."""

    def __init__(self, store: Store, key: StoreKey) -> None:
        self._store, self._key = store, key

    def raised(self, name: str, version: str) -> bool:
        """Tell whether there is one, authentic or not."""
        return self._store.read_tombstone(name, version) is not None

    def refuse(self, name: str, version: str) -> None:
        """Return unless a package is shredded.

        Raises:
            NotFoundError: it is.
            NotAuthenticError: its tombstone isn't the store's.
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
        """
        data = self._store.read_tombstone(name, version)
        if data is None:
            return
        text, tag = tagged.parsed(data, "tombstone")
        with self._key.open() as keys:
            keys.verify_tag(text, tag)
        found = Tombstone.parse(text)
        if (found.name, found.version) != (name, version):
            raise NotAuthenticError(f"the tombstone is {found.name}@{found.version}'s")
        raise NotFoundError("the package was shredded")

    def raise_(self, tombstone: Tombstone) -> None:
        """Write one, durably.

        Raises:
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
            ExhaustedError, StorageError: it can't be written.
        """
        text = tombstone.serialise()
        with self._key.open() as keys:
            data = tagged.tagged(text, keys)
        self._store.write_tombstone(tombstone.name, tombstone.version, data)
