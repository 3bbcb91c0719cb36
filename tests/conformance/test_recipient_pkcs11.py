"""A recipient's private key in a token opens what was wrapped for its public half."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from support.softhsm import LIBRARY, TOKEN

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys.provider import WrappedKey, package_context, transit_context
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.softhsm import SoftToken

    from sealcar_server.keys.provider import KeyProvider

KEY: Final = bytes(range(32))
CONTEXT: Final = transit_context(b"p" * 16, "customer")
PEM: Final = serialization.Encoding.PEM
SPKI: Final = serialization.PublicFormat.SubjectPublicKeyInfo


def pem(path: Path, der: bytes) -> Path:
    path.write_bytes(serialization.load_der_public_key(der).public_bytes(PEM, SPKI))
    return path


def provider(token: SoftToken, path: Path, parameters: str) -> KeyProvider:
    uri = parse(f"recipient:{path}{parameters}", Path("/"))
    return open_provider(KeySource(uri, token.pin_file, 10))


def in_token(label: str) -> str:
    return f"?token={TOKEN.replace(' ', '%20')}&object={label}&module-path={LIBRARY}"


@pytest.fixture
def inbox(soft_token: SoftToken, tmp_path: Path) -> Iterator[Path]:
    yield pem(tmp_path / "inbox.pem", soft_token.make_pair("inbox"))
    soft_token.destroy("inbox")


def test_what_the_public_half_wraps_the_token_opens(soft_token: SoftToken, inbox: Path) -> None:
    sender = provider(soft_token, inbox, "")
    receiver = provider(soft_token, inbox, in_token("inbox"))
    with SecretBuffer.copy_of(KEY) as key:
        wrapped = sender.wrap(key, CONTEXT)
    try:
        receiver.health()
        assert receiver.current_version() == wrapped.version
        with receiver.unwrap(wrapped, CONTEXT) as key:
            assert bytes(key.view) == KEY
        for blob in (
            wrapped.blob[:-1] + bytes([wrapped.blob[-1] ^ 1]),
            wrapped.blob[:70],
            b"\4" + bytes(112),
            b"",
        ):
            with pytest.raises(KeyRefusedError):
                receiver.unwrap(WrappedKey(wrapped.version, blob), CONTEXT)
        for context in (transit_context(b"q" * 16, "customer"), package_context(b"p" * 16)):
            with pytest.raises(KeyRefusedError):
                receiver.unwrap(wrapped, context)
    finally:
        receiver.close()


def test_a_token_that_is_pulled_out_is_missed_and_found_again(
    soft_token: SoftToken, inbox: Path
) -> None:
    receiver = provider(soft_token, inbox, in_token("inbox"))
    try:
        with soft_token.unreachable(), pytest.raises(KeyUnavailableError):
            receiver.health()
        receiver.health()
    finally:
        receiver.close()


def test_a_key_that_could_leave_the_token_is_refused(soft_token: SoftToken, tmp_path: Path) -> None:
    path = pem(tmp_path / "loose.pem", soft_token.make_pair("loose", extractable=True))
    receiver = provider(soft_token, path, in_token("loose"))
    try:
        with pytest.raises(KeyRefusedError, match="not extractable"):
            receiver.health()
    finally:
        receiver.close()
        soft_token.destroy("loose")


def test_a_key_that_isnt_there_is_refused(soft_token: SoftToken, inbox: Path) -> None:
    receiver = provider(soft_token, inbox, in_token("elsewhere"))
    try:
        with pytest.raises(KeyRefusedError, match="0 such private keys"):
            receiver.health()
    finally:
        receiver.close()


def test_a_place_that_is_none_is_refused(
    soft_token: SoftToken, inbox: Path, tmp_path: Path
) -> None:
    for parameters in ("?token=x", "?object=x&module-path=/x", "?object=x&token=x", "?pin=1"):
        with pytest.raises(ConfigurationError):
            provider(soft_token, inbox, parameters)
    path = tmp_path / "other.pem"
    for other in (x25519.X25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)):
        path.write_bytes(other.public_key().public_bytes(PEM, SPKI))
        with pytest.raises(ConfigurationError, match="P-256"):
            provider(soft_token, path, in_token("inbox"))
    private = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        private.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with pytest.raises(ConfigurationError, match="public key"):
        provider(soft_token, path, in_token("inbox"))
