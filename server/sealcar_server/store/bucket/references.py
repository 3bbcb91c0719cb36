"""Which payload of a generation lies where: written beside its manifest, and before that.

Nobody vouches for it. It can name objects of the same version only, and whoever makes it name a
wrong one makes a payload that isn't authentic.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import NotAuthenticError, UnknownFormatError
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.store.bucket.keys import ID

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT: Final = "1"
_FIELDS: Final = 2
_WHAT: Final = "the references of a generation"
MOST: Final = 64 << 20  # bytes


def serialise(places: Mapping[str, str]) -> bytes:
    """Return the object's bytes.

    Args:
        places: id of a payload by its path in a generation.
    """
    value = {"format": _FORMAT, "payloads": dict(sorted(places.items()))}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def parse(data: bytes) -> dict[str, str]:
    """Return the ids of payloads by their paths.

    Raises:
        NotAuthenticError: it isn't what `serialise` writes.
        UnknownFormatError: a newer release wrote it.
    """
    value = strict_json(data, _WHAT, error=NotAuthenticError)
    found = value.get("payloads") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(found, dict) or len(value) != _FIELDS:
        raise NotAuthenticError(f"{_WHAT} aren't what a store writes")
    if value.get("format") != _FORMAT:
        raise UnknownFormatError(f"{_WHAT} are of a newer release: update the daemon")
    places: dict[str, str] = {}
    for path, ident in found.items():
        if not isinstance(ident, str) or not ID.fullmatch(ident):
            raise NotAuthenticError(f"{_WHAT} name no object for {names.shown(path)}")
        places[path] = ident
    return places
