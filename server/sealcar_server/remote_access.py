"""What the settings say of callers on TCP: all of it, or there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import ConfigurationError
from sealcar_server.endpoints import tls_files
from sealcar_server.hardening.ownership import require_private

if TYPE_CHECKING:
    from sealcar_server.settings import Settings
    from sealcar_server.settings_kinds import Address


@dataclass(frozen=True)
class RemoteAccess:
    """[tls], whole.

    Attributes:
        address: to listen on.
        files: with certificates and key.
        trust_domain: that callers have to be of.
    """

    address: Address
    files: tls_files.Files
    trust_domain: str


def of(settings: Settings) -> RemoteAccess | None:
    """Return how gRPC is served on TCP; None: not at all.

    Raises:
        ConfigurationError: there is an address, and something else is missing. TCP without
            certificates on both sides is never served.
    """
    tls = settings.tls
    if tls.address is None:
        return None
    if tls.certificate and tls.key and tls.client_ca and tls.trust_domain:
        files = tls_files.Files(tls.certificate, tls.key, tls.client_ca)
        return RemoteAccess(tls.address, files, tls.trust_domain)
    missing = next(name for name, value in vars(tls).items() if value is None)
    raise ConfigurationError(
        f"[tls] {missing} is missing: on TCP gRPC is served with certificates on both sides only"
    )


def certificates_of(access: RemoteAccess) -> tls_files.Material:
    """Read the certificates and the key.

    Raises:
        ConfigurationError: others can change them, or read the key, or they aren't good.
    """
    for name, path in vars(access.files).items():
        require_private(path, f"[tls] {name}")
    return tls_files.load(access.files)
