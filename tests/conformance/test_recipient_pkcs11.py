"""A recipient's private key in a token opens what was wrapped for its public half."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from support.daemon import Daemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.softhsm import LIBRARY, TOKEN

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar.exports import Destination, Recipient
from sealcar.publish import sealed_plan
from sealcar_server.keys.provider import WrappedKey, package_context, transit_context
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.softhsm import SoftToken
    from support.softokn import NssToken

    from sealcar_server.keys.provider import KeyProvider

KEY: Final = bytes(range(32))
CONTEXT: Final = transit_context(b"p" * 16, "customer")
PEM: Final = serialization.Encoding.PEM
SPKI: Final = serialization.PublicFormat.SubjectPublicKeyInfo


def pem(path: Path, der: bytes) -> Path:
    path.write_bytes(serialization.load_der_public_key(der).public_bytes(PEM, SPKI))
    return path


def provider(token: SoftToken | NssToken, path: Path, parameters: str) -> KeyProvider:
    uri = parse(f"recipient:{path}{parameters}", Path("/"))
    return open_provider(KeySource(uri, token.pin_file, 10))


def in_token(label: str, library: Path = LIBRARY) -> str:
    return f"?token={TOKEN.replace(' ', '%20')}&object={label}&module-path={library}"


@pytest.fixture
def inbox(soft_token: SoftToken, tmp_path: Path) -> Iterator[Path]:
    yield pem(tmp_path / "inbox.pem", soft_token.make_pair("inbox"))
    soft_token.destroy("inbox")


def opens_what_was_wrapped_for_it_alone(sender: KeyProvider, receiver: KeyProvider) -> None:
    with SecretBuffer.copy_of(KEY) as key:
        wrapped = sender.wrap(key, CONTEXT)
    receiver.health()
    assert receiver.current_version() == wrapped.version
    with receiver.unwrap(wrapped, CONTEXT) as key:
        assert bytes(key.view) == KEY
    for blob in (
        wrapped.blob[:-1] + bytes([wrapped.blob[-1] ^ 1]),
        wrapped.blob[:70],
        b"\4" + bytes(112),
        b"",
        bytes(len(wrapped.blob)),
        b"\xff" * len(wrapped.blob),
        wrapped.blob + b"\0",
    ):
        with pytest.raises(KeyRefusedError, match="doesn't belong to this package"):
            receiver.unwrap(WrappedKey(wrapped.version, blob), CONTEXT)
    for context in (transit_context(b"q" * 16, "customer"), package_context(b"p" * 16)):
        with pytest.raises(KeyRefusedError):
            receiver.unwrap(wrapped, context)
    receiver.health()


def test_what_the_public_half_wraps_the_token_opens(soft_token: SoftToken, inbox: Path) -> None:
    sender = provider(soft_token, inbox, "")
    with closing(provider(soft_token, inbox, in_token("inbox"))) as receiver:
        opens_what_was_wrapped_for_it_alone(sender, receiver)


@pytest.mark.parametrize("bits", [0, 2048], ids=["p256", "rsa"])
def test_what_the_public_half_wraps_a_token_that_knows_oaep_opens(
    nss_token: NssToken, tmp_path: Path, bits: int
) -> None:
    label = f"inbox-{bits}"
    path = pem(tmp_path / "inbox.pem", nss_token.make_pair(label, bits=bits))
    sender = provider(nss_token, path, "")
    with closing(provider(nss_token, path, in_token(label, nss_token.library))) as receiver:
        opens_what_was_wrapped_for_it_alone(sender, receiver)


def test_an_rsa_key_is_refused_with_a_remedy_where_the_token_knows_no_such_oaep(
    soft_token: SoftToken, tmp_path: Path
) -> None:
    path = pem(tmp_path / "inbox.pem", soft_token.make_pair("rsa", bits=2048))
    sender = provider(soft_token, path, "")
    with SecretBuffer.copy_of(KEY) as key:
        wrapped = sender.wrap(key, CONTEXT)
    try:
        with closing(provider(soft_token, path, in_token("rsa"))) as receiver:
            for act in (receiver.health, lambda: receiver.unwrap(wrapped, CONTEXT)):
                with pytest.raises(KeyRefusedError, match=r"no OAEP with SHA-256.*P-256"):
                    act()
    finally:
        soft_token.destroy("rsa")


@pytest.mark.usefixtures("inbox")
def test_a_private_key_that_belongs_to_another_public_one_is_found_out(
    soft_token: SoftToken, tmp_path: Path
) -> None:
    path = pem(tmp_path / "other.pem", soft_token.make_pair("other"))
    try:
        with (
            closing(provider(soft_token, path, in_token("inbox"))) as receiver,
            pytest.raises(KeyRefusedError, match="doesn't belong"),
        ):
            receiver.health()
    finally:
        soft_token.destroy("other")


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
    path.write_bytes(x25519.X25519PrivateKey.generate().public_key().public_bytes(PEM, SPKI))
    with pytest.raises(ConfigurationError, match="P-256, or RSA"):
        provider(soft_token, path, in_token("inbox"))
    private = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        private.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with pytest.raises(ConfigurationError, match="public key"):
        provider(soft_token, path, in_token("inbox"))


def test_a_customer_whose_rsa_key_is_in_a_token_takes_a_package_in(
    nss_token: NssToken, tmp_path: Path
) -> None:
    rights = ("list", "read", "import", "export")
    path = pem(tmp_path / "inbox.pem", nss_token.make_pair("customer", bits=2048))
    sent, data = tmp_path / "sent.tar", varied(2 << 20)
    with Daemon(tmp_path / "v", settings={"keys.customer.uri": f"recipient:{path}"}) as vendor:
        vendor.grant(os.geteuid(), rights=rights)
        with vendor.connect() as client:
            publish(client, {"weights": data})
            recipient = Recipient("customer")
            client.catalogue.export(PACKAGE, Destination(sent, tar=True, recipient=recipient))
    settings = {
        "keys.inbox.uri": f"recipient:{path}{in_token('customer', nss_token.library)}",
        "keys.inbox.secret": f"file:{nss_token.pin_file}",
        "hardening.writable": str(nss_token.folder),  # its data base keeps a journal
    }
    with Daemon(tmp_path / "c", settings=settings) as customer:
        customer.grant(os.geteuid(), rights=rights)
        plan = sealed_plan(sent)
        assert plan is not None
        with plan, customer.connect() as client:
            client.catalogue.import_(plan, sealed=True)
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("weights") == data
