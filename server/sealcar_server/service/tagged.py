"""What the store's own small files hold: a text and its tag, as a manifest holds a seal record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing import record
from sealcar_server.sealing.strictjson import strict_json

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PackageKeys


def tagged(text: bytes, keys: PackageKeys) -> bytes:
    """Return a file with a text, authenticated under the store's key."""
    return json.dumps(record.envelope(text, keys.tag(text))).encode() + b"\n"


def parsed(data: bytes, what: str) -> tuple[bytes, bytes]:
    """Return the text in such a file, and the tag that ought to authenticate it.

    Raises:
        NotAuthenticError, UnknownFormatError: it is no such file; `what` names it.
    """
    value = strict_json(data, what, error=NotAuthenticError)
    return record.open_envelope({"additional_metadata": {"sealcar": value}})
