from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from support.certificates import Authority

from sealcar.errors import ConfigurationError
from sealcar_server.endpoints.tls_files import Files, load

if TYPE_CHECKING:
    from pathlib import Path

SERVER = "spiffe://example.org/sealcar"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    authority = Authority()
    certificate, key = authority.issue(SERVER, dns=("localhost",)).write(tmp_path, "server")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate)
    return Files(certificate, key, ca)


def test_what_belongs_together_is_taken_as_it_is_and_the_key_is_not_shown(files: Files) -> None:
    material = load(files)
    assert material.certificate == files.certificate.read_bytes()
    assert material.key == files.key.read_bytes()
    assert "PRIVATE" not in repr(material)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o622])
def test_a_key_that_others_can_read_or_write_is_refused(files: Files, mode: int) -> None:
    files.key.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load(files)


@pytest.mark.parametrize("name", ["certificate", "client_ca"])
def test_certificates_that_others_can_write_are_refused(files: Files, name: str) -> None:
    path: Path = getattr(files, name)
    path.chmod(0o644)
    load(files)
    path.chmod(0o664)
    with pytest.raises(ConfigurationError, match=rf"\[tls\] {name}"):
        load(files)


@pytest.mark.parametrize("name", ["certificate", "key", "client_ca"])
def test_a_file_that_is_missing_or_no_pem_is_named(files: Files, name: str) -> None:
    path: Path = getattr(files, name)
    path.write_bytes(b"words")
    with pytest.raises(ConfigurationError, match=rf"\[tls\] {name}.*PEM"):
        load(files)
    path.unlink()
    with pytest.raises(ConfigurationError, match=rf"\[tls\] {name}.*No such file"):
        load(files)


def test_a_certificate_of_another_key_is_refused(files: Files, tmp_path: Path) -> None:
    Authority().issue(SERVER).write(tmp_path, "other")
    files.certificate.write_bytes(tmp_path.joinpath("other.pem").read_bytes())
    with pytest.raises(ConfigurationError, match="doesn't belong to the certificate"):
        load(files)


@pytest.mark.parametrize("days", [(-2.0, -1.0), (1.0, 2.0)])
def test_a_certificate_that_isnt_good_now_is_refused(
    files: Files, tmp_path: Path, days: tuple[float, float]
) -> None:
    Authority().issue(SERVER, days=days).write(tmp_path, "server")
    with pytest.raises(ConfigurationError, match="which isn't now"):
        load(files)


def test_an_authority_that_is_none_is_refused(files: Files) -> None:
    files.client_ca.write_bytes(files.certificate.read_bytes())
    with pytest.raises(ConfigurationError, match="no authority's"):
        load(files)


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        (b"\x06\x03\x2a\x03\x05", b"\x06\x03\x2a\x03\x04"),  # one extension twice
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"),  # a version that there isn't
    ],
)
def test_a_certificate_that_no_standard_knows_is_refused(
    files: Files, found: bytes, instead: bytes
) -> None:
    key, nobody, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder(nobody, nobody, key.public_key(), 1, now, now)
    for oid in ("1.2.3.4", "1.2.3.5"):
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), b"\x05\x00")
        builder = builder.add_extension(unknown, critical=False)
    made = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    assert found in made
    files.client_ca.write_text(ssl.DER_cert_to_PEM_cert(made.replace(found, instead, 1)))
    with pytest.raises(ConfigurationError, match=r"\[tls\] client_ca"):
        load(files)


def test_authorities_that_have_all_expired_are_refused(files: Files) -> None:
    old = Authority().issue(SERVER, days=(-2, -1), authority=True)
    files.client_ca.write_bytes(old.certificate)
    with pytest.raises(ConfigurationError, match="no certificate that is good now"):
        load(files)
    # one that has is kept by operators for a while, beside the one that follows on it
    files.client_ca.write_bytes(old.certificate + Authority().certificate)
    load(files)
