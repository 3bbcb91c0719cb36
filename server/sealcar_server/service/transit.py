"""A package on its way to somebody else: its key wrapped for him, its payloads as they are.

Who gets it has the package key, and so can open every generation of this package that he ever gets
hold of. He seals what he publishes under a record of his own.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    ConfigurationError,
    InvalidRequestError,
    KeyRefusedError,
    LockedError,
)
from sealcar.names import shown
from sealcar_server.keys.key_pairs import public_key
from sealcar_server.keys.provider import WrappedKey, package_context, transit_context
from sealcar_server.keys.recipient import KIND, RecipientProvider
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.fields import MAX_INTEGER
from sealcar_server.sealing.values import Transit
from sealcar_server.service.outgoing_manifest import enclosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.keys.signing import Signer
    from sealcar_server.sealing.secret import SecretBuffer
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.opened import OpenedPackage

MAX_KEY: Final = 64 << 10
FINGERPRINT: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Recipient:
    """Whom a package goes to.

    Attributes:
        alias: of his key in the configuration; empty if the caller brought one.
        key: what the caller brought: a public key, PEM.
        not_after: seconds since 1970 after which nobody takes the package in; 0: no end.
    """

    alias: str
    key: bytes = field(default=b"", repr=False)
    not_after: int = 0

    def check(self) -> None:
        """Raise InvalidRequestError if it doesn't say who, or is over already."""
        if bool(self.alias) is bool(self.key):
            raise InvalidRequestError("a recipient is an alias of the configuration, or a key")
        if len(self.key) > MAX_KEY:
            raise InvalidRequestError(f"a public key has at most {MAX_KEY} bytes")
        if FINGERPRINT.fullmatch(self.alias):
            raise InvalidRequestError(f"{shown(self.alias)} is no alias of the configuration")
        if self.not_after > MAX_INTEGER:
            raise InvalidRequestError(f"not_after is at most {MAX_INTEGER}")
        if self.not_after and self.not_after <= time.time():
            raise InvalidRequestError("the package would be too old already: not_after is past")


class Forwarder:
    """Wraps packages for others; safe to share between threads.

    Args:
        keyring: has their keys, and the packages'.
        signer: vouches for what leaves; None: nobody does.
    """

    def __init__(self, keyring: Custody, signer: Signer | None = None) -> None:
        self._keyring, self._signer = keyring, signer

    def named(self, recipient: Recipient) -> str:
        """Return how the record names a recipient.

        Raises:
            InvalidRequestError: the caller brought no key that fits.
            KeyRefusedError, KeyUnavailableError: the configured one can't be asked.
        """
        if recipient.key:
            return _brought(recipient.key).current_version()
        version = self._keyring.current_version(recipient.alias)
        return version if FINGERPRINT.fullmatch(version) else recipient.alias

    def opens(self, recipient: Recipient) -> bool:
        """Tell whether the caller, or this daemon, can open what is wrapped for a recipient.

        It can be imported again under any name then, and be read by whoever may read that.
        """
        try:
            return bool(recipient.key) or self._keyring.opens(recipient.alias)
        except (KeyRefusedError, LockedError):
            return False  # nothing is wrapped then

    def manifest(self, opened: OpenedPackage, recipient: Recipient) -> bytes:
        """Return a generation's manifest, with a record for the recipient.

        Raises:
            KeyRefusedError, KeyUnavailableError: a key can't be unwrapped or wrapped.
        """
        own, name = opened.record, self.named(recipient)
        wrapped = WrappedKey(own.kek_version, own.wrapped)
        root = self._keyring.unwrap(own.kek_alias, wrapped, package_context(own.package_id))
        with PackageKeys(root, own.package_id) as keys:
            found = self._wrap(recipient)(root, transit_context(own.package_id, name))
            sealed = replace(
                own,
                generation=1,
                previous=b"",
                kek_alias=name,
                kek_version=found.version,
                wrapped=found.blob,
                transit=Transit(recipient.not_after),
            )
            text = record.serialise(sealed)
            tag = keys.tag(text)
        signature = self._signer.sign(record.signed_text(text)) if self._signer else None
        return enclosed(opened, record.envelope(text, tag, signature))

    def _wrap(self, recipient: Recipient) -> Callable[[SecretBuffer, bytes], WrappedKey]:
        if recipient.key:
            return _brought(recipient.key).wrap
        return lambda root, context: self._keyring.wrap(recipient.alias, root, context)


def own_alias(keyring: Custody, recipient: str) -> str:
    """Return the alias of the key here that a record in transit names.

    It is a fingerprint of a key pair, whatever that is called here, or an alias of both sides.
    """
    if not FINGERPRINT.fullmatch(recipient):
        return recipient
    return keyring.alias_of(KIND, recipient) or recipient


def _brought(key: bytes) -> RecipientProvider:
    try:
        public = public_key(key, "the recipient's key")
    except ConfigurationError as error:
        raise InvalidRequestError(error.message) from None
    return RecipientProvider(public, None, "the recipient's key")
