"""`store.json`: which store this is, and its own key, wrapped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from sealcar.errors import NotAuthenticError, UnknownFormatError
from sealcar_server.sealing.fields import Fields, b64
from sealcar_server.sealing.strictjson import strict_json

FORMAT: Final = "1"
STORE_ID_SIZE: Final = 16
MAX_IDENTITY: Final = 64 * 1024
_FILE: Final = "store.json"


@dataclass(frozen=True)
class StoreIdentity:
    """Made once, by whoever founds the store.

    Attributes:
        store_id: 16 random bytes.
        kek_alias, kek_version: which key-encryption key wraps the store key.
        wrapped: the store key, wrapped; it authenticates what belongs to no single package.
    """

    store_id: bytes
    kek_alias: str
    kek_version: str
    wrapped: bytes = field(repr=False)

    def serialise(self) -> bytes:
        """Return the file's bytes."""
        values = {
            "format": FORMAT,
            "store_id": b64(self.store_id),
            "kek_alias": self.kek_alias,
            "kek_version": self.kek_version,
            "wrapped": b64(self.wrapped),
        }
        return json.dumps(values, indent=2).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> StoreIdentity:
        """Read the file's bytes.

        Raises:
            UnknownFormatError: a newer release made the store.
            NotAuthenticError: it isn't what `serialise` writes.
        """
        fields = Fields(strict_json(data, _FILE, error=NotAuthenticError), what=_FILE)
        found = fields.text("format")
        if found != FORMAT:
            raise UnknownFormatError(
                f"{_FILE} is of format {found[:20]!a}, and this daemon knows {FORMAT}: a newer"
                " release made the store, so update the daemon; nothing was changed"
            )
        made = cls(
            fields.data("store_id", STORE_ID_SIZE),
            fields.text("kek_alias"),
            fields.text("kek_version"),
            fields.data("wrapped"),
        )
        fields.end()
        return made
