"""Known answers of NIST's CAVP, RFC 5869 and Wycheproof, through our own segment and wrapping code.

What fits runs through the product as it is: segments have no associated data of their own and a
nonce that the product counts, so vectors without the first bring their nonce along; wrapped keys
have 32 bytes and a context.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cryptography_vectors
import pytest
from cryptography.exceptions import InvalidTag

from sealcar.errors import KeyRefusedError
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.sealing.derivation import PackageKeys, PayloadKey, derive
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.layout import Params
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.sealing.stream import StreamCipher

if TYPE_CHECKING:
    from collections.abc import Iterator

WYCHEPROOF: Final = Path(__file__).parent.parent / "data" / "wycheproof"
NAMES: Final = ("IKM", "salt", "info", "OKM")
VALUES: Final = ("Key", "IV", "CT", "AAD", "Tag", "PT")
FULL_TAG: Final = 128
IV: Final = 96


@dataclass(frozen=True)
class Vector:
    """One call of AES-GCM; `plain` is None where it must be refused."""

    key: bytes
    nonce: bytes
    plain: bytes | None
    data: bytes
    sealed: bytes


class KnownNonce(StreamCipher):
    """A stream's cipher whose key and nonce are given, not derived and counted."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._key, self._known, self._local = key, nonce, threading.local()

    def _nonce(self, index: int, *, last: bool) -> bytes:  # noqa: ARG002  (as the product has it)
        return self._known


def nist(file: str) -> Iterator[Vector]:
    """Read a file of CAVP: those with nonces of 96 bits and tags of 128."""
    with cryptography_vectors.open_vector_file(f"ciphers/AES/GCM/{file}.rsp", "r") as lines:
        text = lines.read()
    for group in re.split(r"\n(?=\[Keylen)", text)[1:]:
        sizes = {name: int(value) for name, value in re.findall(r"\[(\w+) = (\d+)\]", group)}
        if (sizes["IVlen"], sizes["Taglen"]) != (IV, FULL_TAG):
            continue
        for block in group.split("\n\nCount")[1:]:
            values = dict(re.findall(r"^(\w+) = ?(.*)$", block, re.MULTILINE))
            found = {name: bytes.fromhex(values.get(name, "")) for name in VALUES}
            plain = None if "FAIL" in block else found["PT"]
            sealed = found["CT"] + found["Tag"]
            yield Vector(found["Key"], found["IV"], plain, found["AAD"], sealed)


def wycheproof() -> Iterator[Vector]:
    for group in json.loads((WYCHEPROOF / "aes_gcm_test.json").read_bytes())["testGroups"]:
        if (group["ivSize"], group["tagSize"]) != (IV, FULL_TAG):
            continue
        for test in group["tests"]:
            key, nonce, data, plain, text, tag = (
                bytes.fromhex(test[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")
            )
            kept = plain if test["result"] == "valid" else None
            yield Vector(key, nonce, kept, data, text + tag)


def segments() -> list[Vector]:
    """Return what a segment can be: no associated data, keys of 128 or 256 bits."""
    files = (f"gcm{kind}{bits}" for kind in ("Decrypt", "EncryptExtIV") for bits in (128, 256))
    every = [*wycheproof(), *(vector for file in files for vector in nist(file))]
    return [one for one in every if not one.data and len(one.key) in {16, 32}]


def wraps() -> list[Vector]:
    """Return what a wrapped key can be: 32 bytes in a context, under a key of 256 bits."""
    every = [*nist("gcmDecrypt256"), *nist("gcmEncryptExtIV256")]
    return [one for one in every if len(one.sealed) == 32 + 16 and one.data]


def hkdf(key: bytes, salt: bytes, info: bytes, size: int = 32) -> bytes:
    """HKDF-SHA256 as RFC 5869 has it, on HMAC alone."""
    extracted, made, block = hmac.digest(salt, key, "sha256"), b"", b""
    while len(made) < size:
        step = bytes([len(made) // 32 + 1])
        block = hmac.digest(extracted, block + info + step, "sha256")
        made += block
    return made[:size]


def test_as_many_vectors_fit_as_there_should_be() -> None:
    found, kept = segments(), wraps()
    assert (len(found), sum(one.plain is None for one in found)) == (397, 128)
    assert (len(kept), sum(one.plain is None for one in kept)) == (120, 33)


def test_every_segment_opens_to_the_known_plaintext_or_is_refused() -> None:
    for one in segments():
        cipher = KnownNonce(one.key, one.nonce)
        buffer = memoryview(bytearray(one.sealed))
        plain = buffer[: len(buffer) - 16]
        if one.plain is None:
            with pytest.raises(InvalidTag):
                cipher.open(0, buffer, plain, last=True)
        else:
            cipher.open(0, buffer, plain, last=True)
            assert plain == one.plain


def test_every_segment_is_sealed_to_the_known_bytes() -> None:
    for one in segments():
        if one.plain is not None:
            sealed = bytearray(len(one.sealed))
            cipher = KnownNonce(one.key, one.nonce)
            cipher.seal(0, memoryview(one.plain), memoryview(sealed), last=True)
            assert sealed == one.sealed


def test_a_wrapped_key_opens_to_the_known_key_or_is_refused(tmp_path: Path) -> None:
    for number, one in enumerate(wraps()):
        file = tmp_path / str(number)
        file.touch(0o600)
        file.write_text(f"sealcar key-encryption keys, format 1\n1 {one.key.hex()}\n")
        provider = FileProvider(file)
        wrapped = WrappedKey("1", one.nonce + one.sealed)
        if one.plain is None:
            with pytest.raises(KeyRefusedError):
                provider.unwrap(wrapped, one.data)
        else:
            with provider.unwrap(wrapped, one.data) as key:
                assert key.view == one.plain
        provider.close()


def known_hkdf() -> list[dict[str, Any]]:
    groups = json.loads((WYCHEPROOF / "hkdf_sha256_test.json").read_bytes())["testGroups"]
    return [test for group in groups for test in group["tests"] if test["result"] == "valid"]


def parts(test: dict[str, Any]) -> tuple[bytes, bytes, bytes, bytes]:
    ikm, salt, info, okm = (bytes.fromhex(test[name]) for name in ("ikm", "salt", "info", "okm"))
    return ikm, salt, info, okm


def test_the_key_of_a_stream_is_the_known_one() -> None:
    known = map(parts, known_hkdf())
    fitting = [one for one in known if [len(one[at]) for at in (0, 1, 3)] == [32, 32, 32]]
    assert len(fitting) == 4
    for ikm, salt, info, okm in fitting:
        header = bytes([40]) + salt + bytes(7)
        assert StreamCipher(PayloadKey(ikm, info, Params()), header)._key == okm


def test_hkdf_is_what_the_published_vectors_have() -> None:
    tests = known_hkdf()
    assert len(tests) > 80
    for ikm, salt, info, okm in map(parts, tests):
        assert hkdf(ikm, salt, info, len(okm)) == okm
    with cryptography_vectors.open_vector_file("KDF/rfc-5869-HKDF-SHA256.txt", "r") as lines:
        blocks = lines.read().split("COUNT")[1:]
    for block in blocks:
        values = dict(re.findall(r"^(\w+) *= ?(\w*)$", block, re.MULTILINE))
        ikm, salt, info, okm = (bytes.fromhex(values[name]) for name in NAMES)
        assert hkdf(ikm, salt, info, len(okm)) == okm
    assert len(blocks) == 3


def test_every_derivation_of_ours_is_that_hkdf() -> None:
    root, salt = bytes(range(32)), hashlib.sha256(b"sealcar v1").digest()
    with SecretBuffer.copy_of(root) as secret:
        assert derive(secret, "record", b"id") == hkdf(root, salt, enc("record", b"id"))
        with PackageKeys(secret.copy(), bytes(16)) as keys:
            key = keys.variant("c", "v", "n")
    assert key.key == hkdf(root, salt, enc("variant", bytes(16), "c", "v"))
    header = bytes([40]) + bytes(39)
    pinned = b"sealcar v1 key commitment, not a Tink salt"
    assert key.commitment(header) == hkdf(key.key, pinned, enc(key.associated_data, header))
    assert StreamCipher(key, header)._key == hkdf(key.key, bytes(32), key.associated_data)
