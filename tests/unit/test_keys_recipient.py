"""A recipient's key wraps for packages in transit, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from sealcar.errors import ConfigurationError, KeyRefusedError
from sealcar_server.keys.provider import TRANSIT, WrappedKey, package_context, transit_context
from sealcar_server.keys.recipient import RecipientProvider
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from sealcar_server.keys.provider import KeyProvider

KEY = bytes(range(32))
CONTEXT = transit_context(b"p" * 16, "sha256:abc")
KEYS: dict[str, Any] = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "x25519": x25519.X25519PrivateKey.generate(),
}


def write_private(path: Path, key: Any, passphrase: bytes = b"") -> Path:  # noqa: ANN401  (any key)
    encryption = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    path.touch(0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return path


def write_public(path: Path, key: Any) -> Path:  # noqa: ANN401  (any key)
    path.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return path


def provider(path: Path, secret: Path | None = None) -> KeyProvider:
    return open_provider(KeySource(parse(f"recipient:{path}", Path("/")), secret))


def wrapped(made: KeyProvider, context: bytes = CONTEXT) -> WrappedKey:
    with SecretBuffer.copy_of(KEY) as key:
        return made.wrap(key, context)


@pytest.mark.parametrize("kind", KEYS)
def test_what_the_public_half_wraps_only_the_private_half_unwraps(
    tmp_path: Path, kind: str
) -> None:
    sender = provider(write_public(tmp_path / "public", KEYS[kind]))
    receiver = provider(write_private(tmp_path / "private", KEYS[kind]))
    found = wrapped(sender)
    assert found.version == sender.current_version() == receiver.current_version()
    assert found != wrapped(sender)
    with receiver.unwrap(found, CONTEXT) as key:
        assert bytes(key.view) == KEY
    with receiver.unwrap(receiver.rewrap(found, CONTEXT), CONTEXT) as key:
        assert bytes(key.view) == KEY
    with pytest.raises(KeyRefusedError, match="public key: it opens nothing"):
        sender.unwrap(found, CONTEXT)
    receiver.health()
    receiver.close()


@pytest.mark.parametrize("kind", KEYS)
def test_a_wrap_that_was_changed_moved_or_is_anothers_is_refused(tmp_path: Path, kind: str) -> None:
    receiver = provider(write_private(tmp_path / "private", KEYS[kind]))
    found = wrapped(receiver)
    flipped = bytes([found.blob[0] ^ 1]) + found.blob[1:]
    for blob in (flipped, found.blob[:-1], found.blob + b"x", b"", b"x" * 60):
        with pytest.raises(KeyRefusedError):
            receiver.unwrap(WrappedKey(found.version, blob), CONTEXT)
    for context in (transit_context(b"q" * 16, "sha256:abc"), transit_context(b"p" * 16, "other")):
        with pytest.raises(KeyRefusedError):
            receiver.unwrap(found, context)
    with pytest.raises(KeyRefusedError, match="another recipient"):
        receiver.unwrap(WrappedKey("sha256:0", found.blob), CONTEXT)


@pytest.mark.parametrize("kind", KEYS)
def test_nothing_that_lies_in_a_store_is_wrapped_or_unwrapped(tmp_path: Path, kind: str) -> None:
    # else whoever has the public half could put packages of his own into a store
    receiver = provider(write_private(tmp_path / "private", KEYS[kind]))
    own = wrapped(receiver)
    for context in (package_context(b"p" * 16), TRANSIT[:-1], b""):
        with pytest.raises(KeyRefusedError, match="never for a store"):
            wrapped(receiver, context)
        with pytest.raises(KeyRefusedError, match="never for a store"):
            receiver.unwrap(own, context)


def test_a_public_key_that_no_pair_has_is_refused() -> None:
    nobodys = x25519.X25519PublicKey.from_public_bytes(bytes(32))
    made = RecipientProvider(nobodys, None, "nobody's key")
    with pytest.raises(KeyRefusedError, match="nobody can use"):
        wrapped(made)


def test_a_private_key_under_a_passphrase_needs_it(tmp_path: Path) -> None:
    path = write_private(tmp_path / "private", KEYS["p256"], b"correct horse")
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("correct horse\n")
    assert provider(path, secret).describe().kind == "recipient"
    secret.write_text("wrong\n")
    for other in (secret, None):
        with pytest.raises(ConfigurationError, match="passphrase"):
            provider(path, other)


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write_private(tmp_path / "private", KEYS["p256"])
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        provider(path)


def test_a_public_key_that_others_can_change_is_refused(tmp_path: Path) -> None:
    path = write_public(tmp_path / "public", KEYS["p256"])
    path.chmod(0o646)
    with pytest.raises(ConfigurationError, match="mode 0646"):
        provider(path)


UNFIT = {
    "a short RSA key": rsa.generate_private_key(65537, 1024),  # noqa: S505  (it is refused)
    "another curve": ec.generate_private_key(ec.SECP384R1()),
    "a key that signs": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("key", UNFIT.values(), ids=UNFIT)
def test_a_key_that_doesnt_fit_is_refused(tmp_path: Path, key: Any) -> None:  # noqa: ANN401  (any key)
    for path in (write_public(tmp_path / "a", key), write_private(tmp_path / "b", key)):
        with pytest.raises(ConfigurationError, match="8192 bits, P-256 or X25519"):
            provider(path)


@pytest.mark.parametrize("text", [b"x", b"-----BEGIN PUBLIC KEY-----\n", b"PRIVATE KEY-----"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(text)
    with pytest.raises(ConfigurationError, match="no PEM file"):
        provider(path)
