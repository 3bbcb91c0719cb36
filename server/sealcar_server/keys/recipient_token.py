"""The private half of a recipient's key in a PKCS#11 token, which it never leaves.

It is of P-256: the token agrees on a secret (CKM_ECDH1_DERIVE), and the rest of HPKE is done here.
RSA isn't served: many tokens know no OAEP with SHA-256, or with a label, and raw RSA would have the
padding undone here, in a time that tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pkcs11 import KDF, Attribute, KeyType, ObjectClass

from sealcar.errors import ConfigurationError, KeyRefusedError
from sealcar_server.keys import agreement
from sealcar_server.keys.pkcs11_calls import TokenCalls
from sealcar_server.keys.pkcs11_uri import TokenKey

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.keys.key_pairs import Public
    from sealcar_server.keys.source import KeySource

_SECRET_BITS: Final = 256


def half_of(source: KeySource, public: Public) -> TokenHalf:
    """Return the private half of a public key, where the URI's parameters say.

    Raises:
        ConfigurationError: they don't name library, token and key, or it isn't of P-256.
    """
    found = source.uri.parameters
    module = source.uri.path("module-path")
    if module is None or not found.get("object") or not (found.get("token") or found.get("serial")):
        raise ConfigurationError(
            "a recipient's key in a token is recipient:PUBLIC.pem?token=TOKEN&object=LABEL"
            "&module-path=LIBRARY"
        )
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ConfigurationError("a recipient's key in a token must be of P-256")
    place = TokenKey(module, found.get("token", ""), found.get("serial", ""), found["object"], None)
    return TokenHalf(place, public, source.secret, source.timeout)


class TokenHalf:
    """Opens what was wrapped for a public key.

    Args:
        place: of the private one.
        public: of P-256.
        pin: file with the token's PIN; None: the token wants none.
        timeout: seconds that a call may take.
    """

    def __init__(
        self, place: TokenKey, public: ec.EllipticCurvePublicKey, pin: Path | None, timeout: float
    ) -> None:
        self._place = place
        self._calls = TokenCalls(place, pin, timeout)
        self._own = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def open(self, blob: bytes, context: bytes) -> bytes:
        """Return what is wrapped.

        Raises:
            ValueError, cryptography.exceptions.InvalidTag: it was wrapped for another key.
            KeyRefusedError, KeyUnavailableError: the token does, or doesn't answer.
        """
        sent, sealed = blob[: agreement.POINT], blob[agreement.POINT :]
        # no token is asked about what is no point of the curve
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sent)
        agreed = self._calls(lambda: _agreed(self._key(), sent))
        return agreement.opened(agreed, sent, self._own, context, sealed)

    def health(self) -> None:
        """Look the key up in the token.

        Raises:
            KeyRefusedError: it is gone, or can't be used.
            KeyUnavailableError: the token doesn't answer.
        """
        self._calls(self._key)

    def close(self) -> None:
        """Log out, if nobody else uses the token."""
        self._calls.close()

    def _key(self) -> Any:  # noqa: ANN401  (the library has no type for it)
        wanted = {
            Attribute.CLASS: ObjectClass.PRIVATE_KEY,
            Attribute.KEY_TYPE: KeyType.EC,
            Attribute.LABEL: self._place.label,
        }
        found = list(self._calls.session().get_objects(wanted))
        if not found:
            # it may be the library that lost the token: the next call logs in anew
            self._calls.close()
        if len(found) != 1:
            raise KeyRefusedError(f"{self._place}: the token has {len(found)} such private keys")
        if found[0][Attribute.EXTRACTABLE] or not found[0][Attribute.SENSITIVE]:
            raise KeyRefusedError(
                f"{self._place}: could leave the token; make one that is not extractable"
            )
        return found[0]


def _agreed(key: Any, point: bytes) -> bytes:  # noqa: ANN401  (the library has no type for it)
    readable = {Attribute.SENSITIVE: False, Attribute.EXTRACTABLE: True}
    secret = key.derive_key(
        KeyType.GENERIC_SECRET,
        _SECRET_BITS,
        mechanism_param=(KDF.NULL, None, point),
        template=readable,
    )
    try:
        return bytes(secret[Attribute.VALUE])
    finally:
        secret.destroy()
