"""Lines of the log: each has a MAC under a key that its own hash replaces right after.

Whoever takes the daemon over gets the key of the next line, and none that came before. The first
key of a chain stands, sealed by a key-encryption key, in the chain's first line.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.derivation import KEY
from sealcar_server.sealing.encoding import enc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.sealing.secret import SecretBuffer

_LINE: Final = b"sealcar v1 audit line\0"
_NEXT: Final = b"sealcar v1 audit next key\0"
_MAC: Final = re.compile(rb',"mac":"([0-9a-f]{64})"\}')
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_TAIL: Final = len(',"mac":""}') + 2 * hashlib.sha256().digest_size
# the events that bring a chain's first key, and name the line before
OPENING: Final = frozenset({"started", "recovered", "continued"})


@dataclass(frozen=True)
class Position:
    """The last line: its sequence and MAC; together they say what came before it."""

    sequence: int
    mac: str


@dataclass(frozen=True)
class SealedKey:
    """A chain's first key under a key-encryption key."""

    alias: str
    version: str
    blob: bytes


def key_context(instance: str) -> bytes:
    """Return what a chain's first key is bound to when it is sealed."""
    return enc("sealcar v1 audit key wrap", "1", instance)


class Chain:
    """Makes MACs, each under the next key.

    Args:
        key: the first one. It belongs to the chain from now on.
    """

    def __init__(self, key: SecretBuffer) -> None:
        self._key = key

    def mac(self, text: bytes) -> str:
        """Return the MAC of the next line; the same again until `advance`."""
        return hmac.digest(self._key.view[:KEY], _LINE + text, "sha256").hex()

    def advance(self) -> None:
        """Forget the key of the line that was written."""
        self._key.view[:KEY] = hashlib.sha256(_NEXT + self._key.view[:KEY]).digest()

    def close(self) -> None:
        """Forget every key."""
        self._key.close()


def text_of(values: Mapping[str, Any]) -> bytes:
    """Return a line as it is authenticated: one JSON object, ASCII, without its MAC."""
    return _ENCODER.encode(values).encode("ascii")


def line_of(text: bytes, mac: str) -> bytes:
    """Return a line as it is written."""
    return b'%s,"mac":"%s"}\n' % (text[:-1], mac.encode("ascii"))


def parse(line: bytes) -> tuple[bytes, dict[str, Any], Position]:
    """Return a line's authenticated text, what it says, and its position. Checks no MAC.

    Raises:
        NotAuthenticError: it is no line of this log.
    """
    match = _MAC.fullmatch(line, max(0, len(line) - _TAIL))
    text = line[:-_TAIL] + b"}"
    try:
        values = json.loads(text) if match else None
    except (ValueError, RecursionError):
        values = None
    if match is None or not isinstance(values, dict) or type(values.get("sequence")) is not int:
        raise NotAuthenticError("not a line of an audit log")
    return text, values, Position(values["sequence"], match[1].decode("ascii"))
