"""Certificates: authorities by trustme, and what they sign, workload identities among it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

DAY: Final = timedelta(days=1)
_USES: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.pem and NAME.key, each whole or not at all; return where they are."""
        paths = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            new = path.with_suffix(".new")
            new.touch(mode=0o600)
            new.write_bytes(content)
            new.replace(path)
        return paths


class Authority:
    """An authority that signs whatever it is asked for."""

    def __init__(self) -> None:
        self._made = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.certificate: Final = self._made.cert_pem.bytes()
        key = serialization.load_pem_private_key(self._made.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key: CertificateIssuerPrivateKeyTypes = key
        self._subject = x509.load_pem_x509_certificate(self.certificate).subject

    def issue(
        self,
        *uris: str,
        dns: tuple[str, ...] = (),
        addresses: tuple[str, ...] = (),
        days: tuple[float, float] = (-1, 1),
        authority: bool = False,
    ) -> Issued:
        """Sign a certificate for these names, good from and to so many days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(name) for name in dns]
        names += [x509.IPAddress(ip_address(address)) for address in addresses]
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "spiffe://cn/x")]))
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_USES), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Issued(
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
