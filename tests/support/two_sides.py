"""A vendor's daemon and a customer's, which share no key: one public key went the other way."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from support.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RIGHTS: Final = ("list", "read", "write", "import", "verify", "export", "manage")
CUSTOMER: Final = "customer"  # what the vendor calls that key


@contextmanager
def two_sides(folder: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """Run both."""
    key = X25519PrivateKey.generate()
    private, public = folder / "inbox.pem", folder / "customer.pem"
    private.touch(0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    made = []
    for name, alias, file in (("vendor", CUSTOMER, public), ("customer", "inbox", private)):
        (folder / name).mkdir()
        daemon = Daemon(folder / name, settings={f"keys.{alias}.uri": f"recipient:{file}"})
        daemon.grant(os.geteuid(), rights=RIGHTS)
        made.append(daemon)
    with made[0] as vendor, made[1] as customer:
        yield vendor, customer
