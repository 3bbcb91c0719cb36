"""Known answers of packages in transit, opened by hand too: RFC 9180 step by step."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from data.make_format1 import TARGET, fixed

from sealcar_server.keys.key_pairs import KeyHalf, fingerprint
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.keys.recipient import RecipientProvider
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.fields import unb64
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Mapping

VECTORS: Final[list[dict[str, Any]]] = json.loads((TARGET / "transit.json").read_text())
PACKAGE_KEY, PACKAGE_ID = fixed("package key", 32), fixed("package id", 16)
KINDS = [vector["kind"] for vector in VECTORS]


def private_key(vector: Mapping[str, Any]) -> Any:  # noqa: ANN401  (one of several)
    return serialization.load_der_private_key(bytes.fromhex(vector["private_key"]), None)


def text_of(vector: Mapping[str, Any]) -> bytes:
    return json.dumps(vector["record"], separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("vector", VECTORS, ids=KINDS)
def test_the_private_key_opens_the_package_and_the_tag_is_right(vector: dict[str, Any]) -> None:
    sealed = record.parse(text_of(vector))
    assert record.serialise(sealed) == text_of(vector)
    assert (sealed.generation, sealed.previous, sealed.kek_alias) == (1, b"", vector["recipient"])
    key = private_key(vector)
    provider = RecipientProvider(key.public_key(), KeyHalf(key), "vector")
    assert provider.current_version() == vector["recipient"] == sealed.kek_version
    context = bytes.fromhex(vector["wrap_context"])
    root = provider.unwrap(WrappedKey(sealed.kek_version, sealed.wrapped), context)
    with PackageKeys(root, sealed.package_id) as keys:
        assert bytes(root.view) == PACKAGE_KEY
        keys.verify_tag(text_of(vector), bytes.fromhex(vector["tag"]))


@pytest.mark.parametrize("vector", VECTORS, ids=KINDS)
def test_the_signature_is_ed25519_over_the_records_very_bytes(vector: dict[str, Any]) -> None:
    publisher = Ed25519PublicKey.from_public_bytes(bytes.fromhex(vector["publisher"]))
    signed = b"sealcar v1 publisher\0" + text_of(vector)
    publisher.verify(bytes.fromhex(vector["signature"]), signed)


@pytest.mark.parametrize("vector", VECTORS, ids=KINDS)
def test_the_context_and_the_recipients_name_follow_from_the_document(
    vector: dict[str, Any],
) -> None:
    spki = (
        private_key(vector)
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert vector["recipient"] == f"sha256:{hashlib.sha256(spki).hexdigest()}"
    assert fingerprint(private_key(vector).public_key()) == vector["recipient"]
    expected = enc("sealcar v1 transit key wrap", "1") + enc(PACKAGE_ID, vector["recipient"])
    assert bytes.fromhex(vector["wrap_context"]) == expected


def extract(salt: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), key, "sha256")


def expand(key: bytes, info: bytes, size: int) -> bytes:
    block, out, count = b"", b"", 1
    while len(out) < size:
        block = hmac.digest(key, block + info + bytes([count]), "sha256")
        out, count = out + block, count + 1
    return out[:size]


def labelled_extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return extract(salt, b"HPKE-v1" + suite + label + key)


def labelled_expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    return expand(key, size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, size)


def shared_secret(private: Any, blob: bytes) -> tuple[bytes, bytes, int]:  # noqa: ANN401  (either)
    """Return the KEM's shared secret, the ciphertext, and the KEM's number."""
    if isinstance(private, x25519.X25519PrivateKey):
        kem, sent, own = 0x20, blob[:32], private.public_key().public_bytes_raw()
        agreed = private.exchange(x25519.X25519PublicKey.from_public_bytes(sent))
    else:
        kem, sent = 0x10, blob[:65]
        own = private.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sent)
        agreed = private.exchange(ec.ECDH(), theirs)
    suite = b"KEM" + kem.to_bytes(2, "big")
    key = labelled_extract(suite, b"", b"eae_prk", agreed)
    secret = labelled_expand(suite, key, b"shared_secret", sent + own, 32)
    return secret, blob[len(sent) :], kem


@pytest.mark.parametrize("vector", VECTORS, ids=KINDS)
def test_the_wrap_is_hpke_by_the_letter(vector: dict[str, Any]) -> None:
    blob = unb64(vector["record"]["kek"]["wrapped"])
    secret, sealed, kem = shared_secret(private_key(vector), blob)
    suite = b"HPKE" + b"".join(n.to_bytes(2, "big") for n in (kem, 1, 2))
    context = (
        b"\0"
        + labelled_extract(suite, b"", b"psk_id_hash", b"")
        + labelled_extract(suite, b"", b"info_hash", bytes.fromhex(vector["wrap_context"]))
    )
    schedule = labelled_extract(suite, secret, b"secret", b"")
    key = labelled_expand(suite, schedule, b"key", context, 32)
    nonce = labelled_expand(suite, schedule, b"base_nonce", context, 12)
    assert AESGCM(key).decrypt(nonce, sealed, b"") == PACKAGE_KEY


def test_an_envelope_has_publisher_and_signature_or_neither() -> None:
    (vector, *_) = VECTORS
    text, tag = text_of(vector), bytes.fromhex(vector["tag"])
    made = record.Signature(bytes.fromhex(vector["publisher"]), bytes.fromhex(vector["signature"]))
    for signature in (made, None):
        envelope: Any = record.envelope(text, tag, signature)
        manifest: Any = {"additional_metadata": {"sealcar": envelope}}
        assert record.open_envelope(manifest) == (text, tag)
        assert record.open_signature(manifest) == signature
    with SecretBuffer.copy_of(PACKAGE_KEY) as root, PackageKeys(root, PACKAGE_ID) as keys:
        keys.verify_tag(text, tag)
