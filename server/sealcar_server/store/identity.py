"""`store.json`: which store this is, and its own key, wrapped."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Final

from sealcar.errors import NotAuthenticError, UnknownFormatError

FORMAT: Final = "1"
STORE_ID_SIZE: Final = 16
MAX_IDENTITY: Final = 64 * 1024
_FIELDS: Final = ("format", "store_id", "kek_alias", "kek_version", "wrapped")


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
        return _dump(
            {
                "format": FORMAT,
                "store_id": _text(self.store_id),
                "kek_alias": self.kek_alias,
                "kek_version": self.kek_version,
                "wrapped": _text(self.wrapped),
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> StoreIdentity:
        """Read the file's bytes.

        Raises:
            UnknownFormatError: a newer release made the store.
            NotAuthenticError: it isn't what `serialise` writes.
        """
        values = _strings(data)
        if values.get("format") != FORMAT:
            raise UnknownFormatError("store.json is of a format that this release doesn't know")
        if set(values) != set(_FIELDS):
            raise NotAuthenticError(f"store.json must have exactly the fields {', '.join(_FIELDS)}")
        store_id = _bytes(values["store_id"])
        if len(store_id) != STORE_ID_SIZE:
            raise NotAuthenticError(f"store.json: store_id must have {STORE_ID_SIZE} bytes")
        return cls(store_id, values["kek_alias"], values["kek_version"], _bytes(values["wrapped"]))


def _strings(data: bytes) -> dict[str, str]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise NotAuthenticError("store.json is no JSON") from error
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise NotAuthenticError("store.json must be an object of strings")
    return value


def _dump(values: dict[str, str]) -> bytes:
    return json.dumps(values, indent=2).encode() + b"\n"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotAuthenticError("store.json: a value isn't base64url") from error
