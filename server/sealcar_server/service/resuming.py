"""How far a check of payloads has come, as a text that nobody else can make up.

Who could make one up could have a package called authentic whose first payloads nobody read.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidRequestError, NotAuthenticError, WrongStateError
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.fields import b64, unb64

if TYPE_CHECKING:
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.store_key import StoreKey

_LABEL: Final = "sealcar v1 verified so far"
_HEAD: Final = struct.Struct(">QQ32s")  # generation, payloads, digest of the record
_TAG: Final = 32
_MAX: Final = 400  # characters; those of the longest version are fewer


@dataclass(frozen=True)
class _Token:
    """What a token says, its tag checked."""

    version: str
    generation: int
    payloads: int
    record: bytes


class Tokens:
    """Makes and reads the tokens of one check of one package.

    Args:
        store_key: authenticates them, so that they outlive the daemon's process.
        opened: what is checked.

    Raises:
        KeyRefusedError, KeyUnavailableError: the store's key can't be had.
    """

    def __init__(self, store_key: StoreKey, opened: OpenedPackage) -> None:
        self._opened = opened
        with store_key.open() as keys:
            self._key = keys.resume_key()

    def made(self, payloads: int) -> str:
        """Return the token for a number of payloads that were found authentic."""
        place = self._opened.place
        head = _HEAD.pack(place.number, payloads, self._opened.digest)
        return b64(head + self._tag(head, place.version) + place.version.encode())

    def payloads(self, token: str) -> int:
        """Return how many payloads were found authentic.

        Raises:
            InvalidRequestError: no check of this package gave the token.
            WrongStateError: the package has another generation by now.
        """
        found = self._read(token)
        place = self._opened.place
        if (found.version, found.generation) != (place.version, place.number):
            raise WrongStateError(
                f"the token is of {found.version}, generation {found.generation}: begin anew"
            )
        if found.record != self._opened.digest:
            raise WrongStateError("the package was replaced since: begin anew")
        return found.payloads

    def _read(self, token: str) -> _Token:
        try:
            raw = unb64(token) if len(token) <= _MAX else b""
        except NotAuthenticError:
            raw = b""
        head, tag = raw[: _HEAD.size], raw[_HEAD.size : _HEAD.size + _TAG]
        version = raw[_HEAD.size + _TAG :].decode(errors="replace")
        if len(tag) != _TAG or not hmac.compare_digest(self._tag(head, version), tag):
            raise InvalidRequestError("the token is none that a check of this package gave")
        generation, payloads, record = _HEAD.unpack(head)
        return _Token(version, generation, payloads, record)

    def _tag(self, head: bytes, version: str) -> bytes:
        data = enc(_LABEL, self._opened.place.name, version, head)
        return hmac.digest(self._key, data, "sha256")
