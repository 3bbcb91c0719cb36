from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.derivation import PackageKeys, PayloadKey, derive
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = bytes(range(32))
ID: Final = b"i" * 16
SALT: Final = hashlib.sha256(b"sealcar v1").digest()
SCOPES: Final = st.tuples(*[st.text("ab/", max_size=3)] * 3)


def hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 for one block, from its two lines."""
    return hmac.digest(hmac.digest(salt, key, "sha256"), info + b"\1", "sha256")


@pytest.fixture
def keys() -> Iterator[PackageKeys]:
    with PackageKeys(SecretBuffer.copy_of(ROOT), ID) as made:
        yield made


def test_derivation_is_the_document_s(keys: PackageKeys) -> None:
    with SecretBuffer.copy_of(ROOT) as root:
        assert derive(root, "record", ID) == hkdf(ROOT, SALT, enc("record", ID))
    record = hmac.digest(hkdf(ROOT, SALT, enc("record", ID)), b"sealcar v1 record\0{}", "sha256")
    assert keys.tag(b"{}") == record
    digest = hmac.digest(
        hkdf(ROOT, SALT, enc("digest", ID)), enc("c", "v", "n") + b"s" * 32, "sha256"
    )
    assert keys.digest("c", "v", "n", b"s" * 32) == digest


def test_a_variant_s_payload_has_the_document_s_key_and_associated_data(keys: PackageKeys) -> None:
    key = keys.variant("c", "v", "n")
    assert key.key == hkdf(ROOT, SALT, enc("variant", ID, "c", "v"))
    assert key.associated_data == enc("sealcar v1 payload", "variant", ID, "c", "v", "n", 1 << 20)
    header = bytes([40]) * 40
    salt = b"sealcar v1 key commitment, not a Tink salt"
    assert len(salt) == 42
    assert key.commitment(header) == hkdf(key.key, salt, enc(key.associated_data, header))


def test_an_asset_s_payload_is_the_same_from_every_package(keys: PackageKeys) -> None:
    with SecretBuffer.copy_of(b"a" * 32) as asset_key:
        key = keys.asset(asset_key, b"s" * 16, "n")
    assert key.key == hkdf(b"a" * 32, SALT, enc("asset", b"s" * 16))
    assert key.associated_data == enc("sealcar v1 payload", "asset", b"s" * 16, "n", 1 << 20)


@given(SCOPES, SCOPES)
def test_two_payloads_never_share_key_and_associated_data(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    with PackageKeys(SecretBuffer.copy_of(ROOT), ID) as keys:
        assert (keys.variant(*one) == keys.variant(*other)) == (one == other)
        assert (keys.digest(*one, b"") == keys.digest(*other, b"")) == (one == other)


def test_another_record_key_or_package_makes_another_tag(keys: PackageKeys) -> None:
    tag = keys.tag(b"record")
    keys.verify_tag(b"record", tag)
    with PackageKeys(SecretBuffer.copy_of(ROOT), b"j" * 16) as other:
        for holder, record, given_tag in (
            (keys, b"record!", tag),
            (keys, b"record", tag[:-1]),
            (keys, b"record", b""),
            (other, b"record", tag),
        ):
            with pytest.raises(NotAuthenticError, match="seal record"):
                holder.verify_tag(record, given_tag)


def test_an_asset_s_key_unwraps_for_its_package_and_asset_only(keys: PackageKeys) -> None:
    with SecretBuffer.copy_of(b"a" * 32) as asset_key:
        wrapped = keys.wrap_asset(asset_key, ID)
        assert keys.wrap_asset(asset_key, ID) != wrapped
    with keys.unwrap_asset(wrapped, ID) as found:
        assert bytes(found.view) == b"a" * 32
    with PackageKeys(SecretBuffer.copy_of(ROOT), b"j" * 16) as other:
        for holder, blob, asset_id in (
            (keys, wrapped, b"x" * 16),
            (keys, wrapped[:-1], ID),
            (keys, wrapped[:-1] + bytes([wrapped[-1] ^ 1]), ID),
            (keys, b"", ID),
            (other, wrapped, ID),
        ):
            with pytest.raises(NotAuthenticError, match="asset's key"):
                holder.unwrap_asset(blob, asset_id)


def test_the_digest_of_an_asset_never_meets_that_of_a_variant(keys: PackageKeys) -> None:
    assert keys.asset_digest(ID, "n", b"s" * 32) == hmac.digest(
        hkdf(ROOT, SALT, enc("digest", ID)), enc(ID, "n") + b"s" * 32, "sha256"
    )


def test_payload_keys_are_values() -> None:
    assert PayloadKey(b"k", b"a") == PayloadKey(b"k", b"a")


def test_the_index_of_equal_assets_has_the_document_s_names(keys: PackageKeys) -> None:
    uri = f"sha256:{'a' * 64}"
    key = hkdf(ROOT, SALT, enc("asset-index", ID))
    label = hmac.digest(key, enc("asset", "main", uri), "sha256").hex()
    assert keys.asset_label("main", uri) == label
    assert keys.asset_label("other", uri) != label
