"""The private half of a recipient's key in a PKCS#11 token, which it never leaves.

With P-256 the token agrees on a secret (CKM_ECDH1_DERIVE), and the rest of HPKE is done here. With
RSA it undoes all of OAEP itself (CKM_RSA_PKCS_OAEP). Many tokens know that with SHA-1 only, or
without a label, and are refused: raw RSA would have the padding undone here, in a time that tells
of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pkcs11
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pkcs11 import KDF, MGF, Attribute, KeyType, Mechanism, ObjectClass

from sealcar.errors import ConfigurationError, KeyRefusedError
from sealcar_server.keys import agreement
from sealcar_server.keys.pkcs11_calls import TokenCalls
from sealcar_server.keys.pkcs11_errors import WRONG_DATA
from sealcar_server.keys.pkcs11_uri import TokenKey

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.keys.key_pairs import Public
    from sealcar_server.keys.recipient import Half
    from sealcar_server.keys.source import KeySource

_SECRET_BITS: Final = 256
# how tokens say that they know no such OAEP
_NO_OAEP: Final = (
    pkcs11.ArgumentsBad,
    pkcs11.FunctionNotSupported,
    pkcs11.MechanismInvalid,
    pkcs11.MechanismParamInvalid,
)


def half_of(source: KeySource, public: Public) -> Half:
    """Return the private half of a public key, where the URI's parameters say.

    Raises:
        ConfigurationError: they don't name library, token and key, or it is of X25519.
    """
    found = source.uri.parameters
    module = source.uri.path("module-path")
    if module is None or not found.get("object") or not (found.get("token") or found.get("serial")):
        raise ConfigurationError(
            "a recipient's key in a token is recipient:PUBLIC.pem?token=TOKEN&object=LABEL"
            "&module-path=LIBRARY"
        )
    place = TokenKey(module, found.get("token", ""), found.get("serial", ""), found["object"], None)
    if isinstance(public, ec.EllipticCurvePublicKey):
        return AgreeingHalf(PrivateKey(place, KeyType.EC, source.secret, source.timeout), public)
    if isinstance(public, rsa.RSAPublicKey):
        return OaepHalf(PrivateKey(place, KeyType.RSA, source.secret, source.timeout), public)
    raise ConfigurationError("a recipient's key in a token must be of P-256, or RSA")


class PrivateKey:
    """One private key in a token.

    Args:
        place: of it.
        kind: of it.
        pin: file with the token's PIN; None: the token wants none.
        timeout: seconds that a call may take.

    Attributes:
        place: of it.
        calls: to its token.
    """

    def __init__(self, place: TokenKey, kind: KeyType, pin: Path | None, timeout: float) -> None:
        self.place, self._kind = place, kind
        self.calls: Final = TokenCalls(place, pin, timeout)

    def found(self) -> Any:  # noqa: ANN401  (the library has no type for it)
        """Look it up, within a call.

        Raises:
            KeyRefusedError: it isn't there, or could leave the token.
            pkcs11.PKCS11Error: the token fails.
        """
        wanted = {
            Attribute.CLASS: ObjectClass.PRIVATE_KEY,
            Attribute.KEY_TYPE: self._kind,
            Attribute.LABEL: self.place.label,
        }
        found = list(self.calls.session().get_objects(wanted))
        if not found:
            # it may be the library that lost the token: the next call logs in anew
            self.calls.close()
        if len(found) != 1:
            raise KeyRefusedError(
                f"{self.place}: the token has {len(found)} such private keys of type "
                f"{self._kind.name}"
            )
        if found[0][Attribute.EXTRACTABLE] or not found[0][Attribute.SENSITIVE]:
            raise KeyRefusedError(
                f"{self.place}: could leave the token; make one that is not extractable"
            )
        return found[0]


class AgreeingHalf:
    """Opens what was wrapped for a public key of P-256."""

    def __init__(self, key: PrivateKey, public: ec.EllipticCurvePublicKey) -> None:
        self._key = key
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
        agreed = self._key.calls(lambda: _agreed(self._key.found(), sent))
        return agreement.opened(agreed, sent, self._own, context, sealed)

    def close(self) -> None:
        """Log out, if nobody else uses the token."""
        self._key.calls.close()


class OaepHalf:
    """Opens what was wrapped for a public RSA key."""

    def __init__(self, key: PrivateKey, public: rsa.RSAPublicKey) -> None:
        self._key = key
        self._size, self._modulus = (public.key_size + 7) // 8, public.public_numbers().n

    def open(self, blob: bytes, context: bytes) -> bytes:
        """Return what is wrapped.

        Raises:
            ValueError: it was wrapped for another key, or another context.
            KeyRefusedError, KeyUnavailableError: the token does, or doesn't answer.
        """
        # no token is asked about what no public key makes: some call that a wrong argument
        if len(blob) != self._size or int.from_bytes(blob, "big") >= self._modulus:
            raise ValueError("no ciphertext of this key")
        return self._key.calls(lambda: self._opened(blob, context))

    def close(self) -> None:
        """Log out, if nobody else uses the token."""
        self._key.calls.close()

    def _opened(self, blob: bytes, context: bytes) -> bytes:
        key, parameters = self._key.found(), (Mechanism.SHA256, MGF.SHA256, context)
        try:
            return bytes(
                key.decrypt(blob, mechanism=Mechanism.RSA_PKCS_OAEP, mechanism_param=parameters)
            )
        except WRONG_DATA:
            self._key.found()  # a token that answers this well has refused
            raise ValueError("wrapped for another key or context") from None
        except _NO_OAEP as error:
            raise KeyRefusedError(
                f"{self._key.place}: the token knows no OAEP with SHA-256 and a label "
                f"({type(error).__name__}); make a key pair of P-256 in it, or take another token"
            ) from error


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
