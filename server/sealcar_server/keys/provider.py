"""What a key provider is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sealcar_server.sealing.encoding import enc

if TYPE_CHECKING:
    from sealcar_server.sealing.secret import SecretBuffer


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A key under a key-encryption key.

    Attributes:
        version: of the key-encryption key, as the provider names it.
        blob: only its provider knows what it is.
    """

    version: str
    blob: bytes


def package_context(package_id: bytes) -> bytes:
    """Return what a package's key is bound to when it is wrapped."""
    return enc("sealcar v1 key wrap", "1", package_id)


class KeyProvider(Protocol):
    """Holds one key-encryption key in all its versions, and never gives it away.

    Every wrap is bound to a context: it is authenticated associated data, so a wrapped key that
    is moved to another package doesn't unwrap.
    """

    @property
    def kind(self) -> str:
        """Word of the configuration: "file"."""

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key under the current version.

        Raises:
            KeyRefusedError: the provider says no.
            KeyUnavailableError: it can't be reached.
        """

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return the key; whoever asked closes it.

        Raises:
            KeyRefusedError: the version is unknown, or it was wrapped for another context.
            KeyUnavailableError: the provider can't be reached.
        """

    def current_version(self) -> str:
        """Return the version that wraps new keys."""

    def health(self) -> None:
        """Ask the provider whether it would answer.

        Raises:
            KeyUnavailableError: it wouldn't; the message says why.
        """

    def close(self) -> None:
        """Forget every secret. No other method works afterwards."""
