"""Key-encryption keys in AWS KMS.

The context travels as the encryption context, which KMS authenticates and logs: its one entry is
the context's bytes in hexadecimal digits. A version is a key's id; KMS rotates what is behind an id
by itself, so that a rewrapped key has the newest material and the same version.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from sealcar.errors import KeyRefusedError, KeyUnavailableError
from sealcar_server.keys import aws_client, aws_errors, private_file
from sealcar_server.keys.bounded import Bounded
from sealcar_server.keys.provider import KekDescription, TinkCiphertext, WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.keys.source import KeySource

T = TypeVar("T")
_KEY: Final = 32
_CREDENTIALS_MOST: Final = 1 << 16
_CONTEXT: Final = "sealcar-context"
# what Tink calls it, which is no name of ours: so neither opens what the other wrapped
_TINK_CONTEXT: Final = "associatedData"
_MOST: Final = 4096  # that KMS encrypts


def provider_of(source: KeySource) -> KmsProvider:
    """Make a provider for `aws-kms:KEY`.

    Raises:
        ConfigurationError: it names no key, or others can read the credentials.
        KeyUnavailableError: the credentials file can't be read.
    """
    key = aws_client.key_of(source.uri)
    return KmsProvider(key, source.secret, source.timeout)


class KmsProvider:
    """A `KeyProvider` over one key of AWS KMS.

    Args:
        key: where it is.
        credentials: shared credentials file; None: the machine's or the container's identity.
        timeout: seconds that a call may take.
    """

    kind: Final = "aws-kms"

    def __init__(self, key: aws_client.KmsKey, credentials: Path | None, timeout: float) -> None:
        if credentials is not None:
            private_file.read(
                credentials, "credentials file", least=1, most=_CREDENTIALS_MOST
            ).close()
        self._key, self._credentials, self._timeout = key, credentials, timeout
        self._place = f"AWS KMS key {key.name} in {key.region}"
        self._bounded = Bounded(self._place, timeout)
        self._lock = threading.Lock()
        self._made: aws_client.KmsClient | None = None
        self._arn = key.name if ":key/" in key.name else ""

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Have KMS encrypt a key.

        Raises:
            KeyRefusedError, KeyUnavailableError: KMS does.
        """
        plain = bytes(key.view)

        def encrypt() -> WrappedKey:
            answer = self._client().encrypt(
                KeyId=self._key.name, Plaintext=plain, EncryptionContext=_encryption(context)
            )
            self._arn = str(answer["KeyId"])
            return WrappedKey(_version(self._arn), bytes(answer["CiphertextBlob"]))

        return self._ask(encrypt)

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Have KMS decrypt a key; it is told which key-encryption key must have been used.

        Raises:
            KeyRefusedError: KMS refuses, or it was wrapped for another context.
            KeyUnavailableError: KMS doesn't answer.
        """

        def decrypt() -> SecretBuffer:
            answer = self._client().decrypt(
                KeyId=self._same(wrapped),
                CiphertextBlob=wrapped.blob,
                EncryptionContext=_encryption(context),
            )
            plain = answer["Plaintext"]
            if len(plain) != _KEY:
                raise KeyRefusedError(f"{self._place}: what was wrapped is no key of ours")
            return SecretBuffer.copy_of(plain)

        return self._ask(decrypt)

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Have KMS encrypt a key anew, which never leaves KMS meanwhile.

        Raises:
            KeyRefusedError: KMS refuses, or it was wrapped for another context.
            KeyUnavailableError: KMS doesn't answer.
        """

        def re_encrypt() -> WrappedKey:
            answer = self._client().re_encrypt(
                SourceKeyId=self._same(wrapped),
                CiphertextBlob=wrapped.blob,
                SourceEncryptionContext=_encryption(context),
                DestinationKeyId=self._key.name,
                DestinationEncryptionContext=_encryption(context),
            )
            return WrappedKey(_version(str(answer["KeyId"])), bytes(answer["CiphertextBlob"]))

        return self._ask(re_encrypt)

    def encrypt_for_tink(self, text: bytes, associated_data: bytes) -> TinkCiphertext:
        """Have KMS encrypt a keyset, as Tink's client of KMS does.

        Raises:
            KeyRefusedError, KeyUnavailableError: KMS does, or it is too much for it.
        """
        if len(text) > _MOST:
            raise KeyRefusedError(f"{self._place}: encrypts {_MOST} bytes, not {len(text)}")

        def encrypt() -> TinkCiphertext:
            answer = self._client().encrypt(
                KeyId=self._key.name,
                Plaintext=text,
                EncryptionContext={_TINK_CONTEXT: associated_data.hex()},
            )
            return TinkCiphertext(f"aws-kms://{answer['KeyId']}", bytes(answer["CiphertextBlob"]))

        return self._ask(encrypt)

    def current_version(self) -> str:
        """Return the key's id; an alias is looked up once.

        Raises:
            KeyRefusedError, KeyUnavailableError: an alias, and KMS doesn't say whose.
        """
        if not self._arn:
            self.health()
        return _version(self._arn)

    def describe(self) -> KekDescription:
        """Say which key it is.

        Raises:
            KeyRefusedError, KeyUnavailableError: an alias, and KMS doesn't say whose.
        """
        version = self.current_version()
        return KekDescription(self.kind, f"{self._key.name} in {self._key.region}", version, ())

    def health(self) -> None:
        """Ask for the key's state.

        Raises:
            KeyRefusedError: it isn't enabled, or no key for encryption.
            KeyUnavailableError: KMS doesn't answer.
        """

        def describe() -> dict[str, Any]:
            answer: dict[str, Any] = self._client().describe_key(KeyId=self._key.name)
            return dict(answer["KeyMetadata"])

        found = self._ask(describe)
        state = str(found.get("KeyState", "unknown"))
        if state != "Enabled":
            raise KeyRefusedError(f"{self._place}: its state is {state[:40]}, not Enabled")
        if found.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
            raise KeyRefusedError(f"{self._place}: it must be a symmetric key for encryption")
        self._arn = str(found["Arn"])

    def close(self) -> None:
        """Close the connections."""
        self._forget_client()

    def _same(self, wrapped: WrappedKey) -> str:
        if not self._arn:
            answer = self._client().describe_key(KeyId=self._key.name)
            self._arn = str(answer["KeyMetadata"]["Arn"])
        if wrapped.version != _version(self._arn):
            raise KeyRefusedError(
                f"{self._place}: another key, {wrapped.version[:40]!a}, wrapped this one"
            )
        return self._arn

    def _client(self) -> aws_client.KmsClient:
        with self._lock:
            if self._made is None:
                self._made = aws_client.client_of(self._key, self._credentials, self._timeout)
            return self._made

    def _forget_client(self) -> None:
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def _ask(self, act: Callable[[], T]) -> T:
        try:
            return self._bounded(act)
        except (ClientError, BotoCoreError) as error:
            if (
                isinstance(error, ClientError)
                and aws_errors.code_of(error) in aws_errors.CREDENTIALS
            ):
                self._forget_client()
            raise aws_errors.meaning(error, self._place) from None
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise KeyUnavailableError(
                f"{self._place}: the service's answer is none ({type(error).__name__})"
            ) from None


def _version(arn: str) -> str:
    return arn.rpartition("/")[2]


def _encryption(context: bytes) -> dict[str, str]:
    return {_CONTEXT: context.hex()}
