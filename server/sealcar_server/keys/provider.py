"""What a key provider is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

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


@dataclass(frozen=True, slots=True)
class KekDescription:
    """What anybody who operates the daemon may know of a key-encryption key.

    Attributes:
        kind: the provider's word.
        key: where the key is, without any secret.
        version: that wraps new keys.
        versions: that still unwrap, oldest first; () where the provider keeps that to itself.
    """

    kind: str
    key: str
    version: str
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KekStatus:
    """What an operator may know of one key-encryption key.

    Attributes:
        alias: in the configuration.
        provider: its kind.
        version: that wraps new keys, as seen last; empty if it never was.
        available: it answered just now.
        problem: why not; empty when available.
        cached: unwrapped keys in memory.
    """

    alias: str
    provider: str
    version: str
    available: bool
    problem: str
    cached: int


@dataclass(frozen=True, slots=True)
class TinkCiphertext:
    """What a key service encrypted as Tink has it encrypt.

    Attributes:
        uri: of the key, as Tink writes it.
        ciphertext: as Tink's AEAD of that service makes it.
    """

    uri: str
    ciphertext: bytes


@lru_cache(1024)
@lru_cache(1024)
def package_context(package_id: bytes) -> bytes:
    """Return what a package's key is bound to when it is wrapped."""
    return enc("sealcar v1 key wrap", "1", package_id)


# every context of a package in transit begins so, and no other one does
TRANSIT: Final = enc("sealcar v1 transit key wrap", "1")


def transit_context(package_id: bytes, recipient: str) -> bytes:
    """Return what a package's key is bound to when it is wrapped for somebody else.

    Args:
        package_id: 16 bytes.
        recipient: as the record names him.
    """
    return TRANSIT + enc(package_id, recipient)


class KeyProvider(Protocol):
    """Holds one key-encryption key in all its versions, and never gives it away.

    Every wrap is bound to a context: it is authenticated associated data, so a wrapped key that
    is moved to another package doesn't unwrap. Every method is thread-safe, and answers or raises
    within a bounded time. Constructing a provider contacts nobody: what can't be reached yet is
    reached by the first call after it came back.
    """

    @property
    def kind(self) -> str:
        """Word of the configuration: "file"."""

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key of 32 bytes under the current version.

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

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Return the same key for the same context, under the current version.

        Raises:
            KeyRefusedError: the version is unknown, or it was wrapped for another context.
            KeyUnavailableError: the provider can't be reached.
        """

    def current_version(self) -> str:
        """Return the version that wraps new keys.

        Raises:
            KeyRefusedError, KeyUnavailableError: the provider has to be asked, and doesn't answer.
        """

    def describe(self) -> KekDescription:
        """Say what the key is.

        Raises:
            KeyRefusedError, KeyUnavailableError: the provider has to be asked, and doesn't answer.
        """

    def health(self) -> None:
        """Ask the provider, not a memory of it, whether it would wrap and unwrap now.

        Raises:
            KeyRefusedError: it answers that it wouldn't: the key is disabled or gone, or the
                daemon lost the right to it. Keys that were unwrapped earlier end too.
            KeyUnavailableError: it doesn't answer; the message says why.
        """

    def close(self) -> None:
        """Forget every secret. No other method works afterwards."""


@runtime_checkable
class RecipientsProvider(Protocol):
    """A `KeyProvider` that may have nothing but what wraps: somebody else's public key."""

    @property
    def opens(self) -> bool:
        """Whether it unwraps here what it wraps."""


@runtime_checkable
class RotatingProvider(Protocol):
    """A `KeyProvider` that makes new versions of its key itself."""

    def rotate(self) -> str:
        """Make a new version, which wraps new keys from now on, and return it.

        Raises:
            ConflictError: somebody else is doing it.
            ConfigurationError, KeyRefusedError, KeyUnavailableError, StorageError: it can't be
                made; the old version goes on wrapping.
        """


@runtime_checkable
class TinkProvider(Protocol):
    """A `KeyProvider` whose key-encryption key any Tink can use too."""

    def encrypt_for_tink(self, text: bytes, associated_data: bytes) -> TinkCiphertext:
        """Encrypt a few bytes so that Tink decrypts them at the service; never a key of 32 bytes.

        Raises:
            KeyRefusedError: the provider says no, or it is too much.
            KeyUnavailableError: it can't be reached.
        """
