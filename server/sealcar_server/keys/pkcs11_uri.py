"""PKCS#11 URIs (RFC 7512), as far as they name one key: which library, which token, which key.

pkcs11:token=prod;object=sealcar?module-path=/usr/lib/softhsm/libsofthsm2.so
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, unquote_to_bytes

from sealcar.errors import ConfigurationError
from sealcar.names import shown

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.keys.source import KeyUri

_ATTRIBUTES: Final = ("token", "serial", "object", "id", "type")
_MODULE: Final = "module-path"


@dataclass(frozen=True)
class TokenKey:
    """Where a key is.

    Attributes:
        module: the library that speaks to the token.
        token, serial: of the token; empty: any.
        label: of the key; all keys of this label are its versions.
        id: of the version that wraps; None: the greatest.
    """

    module: Path
    token: str
    serial: str
    label: str
    id: bytes | None

    def __str__(self) -> str:
        """Render as a person would name it."""
        return f"key {shown(self.label)} of token {shown(self.token or self.serial)}"


def key_of(uri: KeyUri) -> TokenKey:
    """Take the URI apart.

    Raises:
        ConfigurationError: it is none, holds or names a PIN, or doesn't name library, token and
            key.
    """
    if any(uri.has(name) for name in ("pin-value", "pin-source")):
        raise ConfigurationError('a PIN is never in the URI: name its file with secret = "file:…"')
    uri.allow({_MODULE})
    module = uri.path(_MODULE)
    found = _attributes(uri.address)
    if module is None or not found.get("object") or not (found.get("token") or found.get("serial")):
        raise ConfigurationError(
            "a PKCS#11 key is pkcs11:token=TOKEN;object=LABEL?module-path=LIBRARY"
        )
    if found.get("type", "secret-key") != "secret-key":
        raise ConfigurationError("a PKCS#11 key-encryption key is of type=secret-key")
    return TokenKey(
        module,
        unquote(found.get("token", "")),
        unquote(found.get("serial", "")),
        unquote(found["object"]),
        unquote_to_bytes(found["id"]) if "id" in found else None,
    )


def _attributes(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in path.split(";"):
        name, equals, value = part.partition("=")
        if not equals or name not in _ATTRIBUTES or name in found:
            raise ConfigurationError(
                f"pkcs11: attribute {shown(name)} must be one of {', '.join(_ATTRIBUTES)}, once"
            )
        found[name] = value
    return found
