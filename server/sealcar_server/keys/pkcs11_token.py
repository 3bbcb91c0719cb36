"""Key-encryption keys that never leave a PKCS#11 token.

All AES-256 keys of one label are the versions of one key-encryption key; a version is a key's
CKA_ID in hexadecimal digits, and the greatest wraps. A wrapped key is a 12-byte random nonce, then
AES-256-GCM of the key with the context as associated data, as the token made it: 60 bytes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

import pkcs11
from pkcs11 import Attribute, KeyType, Mechanism, ObjectClass

from sealcar.errors import KeyRefusedError
from sealcar_server.keys.pkcs11_calls import TokenCalls
from sealcar_server.keys.pkcs11_errors import WRONG_DATA
from sealcar_server.keys.pkcs11_uri import TokenKey, key_of
from sealcar_server.keys.provider import KekDescription, WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from sealcar_server.keys.source import KeySource

T = TypeVar("T")
_KEY: Final = 32
_NONCE: Final = 12
_BLOB: Final = _NONCE + _KEY + 16
_TAG_BITS: Final = 128


def provider_of(source: KeySource) -> TokenProvider:
    """Make a provider for a URI of RFC 7512.

    Raises:
        ConfigurationError: it isn't one, or names no key.
    """
    return TokenProvider(key_of(source.uri), source.secret, source.timeout)


class TokenProvider:
    """A `KeyProvider` over the keys of one label in one token.

    Args:
        place: of the key.
        pin: file with the token's PIN; None: the token wants none.
        timeout: seconds that a call may take.
    """

    kind: Final = "pkcs11"

    def __init__(self, place: TokenKey, pin: Path | None, timeout: float) -> None:
        self._place = place
        self._calls = TokenCalls(place, pin, timeout)
        self._session: pkcs11.Session | None = None
        self._keys: Mapping[str, Any] = {}

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key under the greatest version.

        Raises:
            KeyRefusedError, KeyUnavailableError: the token does.
        """
        plain = bytes(key.view)
        return self._ask(lambda: self._sealed(plain, context))

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return the key.

        Raises:
            KeyRefusedError: the token has no such version, or it was wrapped for another context.
            KeyUnavailableError: the token doesn't answer.
        """
        return self._ask(lambda: SecretBuffer.copy_of(self._opened(wrapped, context)))

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Return the same key under the greatest version.

        Raises:
            KeyRefusedError: the token has no such version, or it was wrapped for another context.
            KeyUnavailableError: the token doesn't answer.
        """
        return self._ask(lambda: self._sealed(self._opened(wrapped, context), context))

    def current_version(self) -> str:
        """Look up the greatest version, or the one that the URI names.

        Raises:
            KeyRefusedError, KeyUnavailableError: the token does, or doesn't answer.
        """

        def newest() -> str:
            self._look_up()
            return self._newest()

        return self._ask(newest)

    def describe(self) -> KekDescription:
        """Say which token, which key, which versions."""

        def found() -> KekDescription:
            return KekDescription(self.kind, str(self._place), self._newest(), tuple(self._keys))

        return self._ask(found)

    def health(self) -> None:
        """Look the keys up in the token, again.

        Raises:
            KeyRefusedError: they are gone, or can't be used.
            KeyUnavailableError: the token doesn't answer.
        """
        self._ask(self._look_up)

    def close(self) -> None:
        """Log out, if nobody else uses the token."""
        self._calls.close()

    def _ask(self, act: Callable[[], T]) -> T:
        return self._calls(lambda: self._prepared(act))

    def _prepared(self, act: Callable[[], T]) -> T:
        session = self._calls.session()
        if session is not self._session:
            # keys are handles of one session
            self._session, self._keys = session, {}
        if not self._keys:
            self._look_up()
        return act()

    def _look_up(self) -> None:
        session = self._calls.session()
        wanted = {
            Attribute.CLASS: ObjectClass.SECRET_KEY,
            Attribute.KEY_TYPE: KeyType.AES,
            Attribute.LABEL: self._place.label,
        }
        found: dict[int, Any] = {}
        for key in session.get_objects(wanted):
            number = int.from_bytes(key[Attribute.ID], "big")
            if number in found:
                raise KeyRefusedError(f"{self._place}: two keys have the id {number:02x}")
            found[number] = self._usable(key, number)
        self._keys = {_version(number): found[number] for number in sorted(found)}
        if not found:
            # it may be the library that lost the token: the next call logs in anew
            self._calls.close()
        self._newest()

    def _usable(self, key: Any, number: int) -> Any:  # noqa: ANN401  (the library has no type for it)
        place = f"{self._place}, id {number:02x}"
        if key[Attribute.EXTRACTABLE] or not key[Attribute.SENSITIVE]:
            raise KeyRefusedError(
                f"{place}: could leave the token; make one that is not extractable"
            )
        if key[Attribute.VALUE_LEN] != _KEY:
            raise KeyRefusedError(f"{place}: is no AES-256 key")
        return key

    def _newest(self) -> str:
        if self._place.id is not None:
            return self._has(_version(int.from_bytes(self._place.id, "big")))
        if not self._keys:
            raise KeyRefusedError(f"{self._place}: the token has no such key")
        return tuple(self._keys)[-1]

    def _has(self, version: str) -> str:
        if version not in self._keys:
            raise KeyRefusedError(f"{self._place}: the token has no version {version[:20]!a}")
        return version

    def _sealed(self, plain: bytes, context: bytes) -> WrappedKey:
        version = self._newest()
        nonce = os.urandom(_NONCE)
        sealed = self._keys[version].encrypt(plain, **_gcm(nonce, context))
        return WrappedKey(version, nonce + sealed)

    def _opened(self, wrapped: WrappedKey, context: bytes) -> bytes:
        if wrapped.version not in self._keys:
            self._look_up()  # it may have been made since
        key = self._keys[self._has(wrapped.version)]
        nonce, sealed = wrapped.blob[:_NONCE], wrapped.blob[_NONCE:]
        if len(wrapped.blob) == _BLOB:
            try:
                return bytes(key.decrypt(sealed, **_gcm(nonce, context)))
            except WRONG_DATA:
                self._look_up()  # a token that answers this well has refused
        raise KeyRefusedError(
            f"{self._place}: the wrapped key doesn't belong to this package and to version "
            f"{wrapped.version!a}"
        )


def _version(number: int) -> str:
    return f"{number:02x}"


def _gcm(nonce: bytes, context: bytes) -> dict[str, Any]:
    return {
        "mechanism": Mechanism.AES_GCM,
        "mechanism_param": pkcs11.GCMParams(nonce, context, _TAG_BITS),
    }
