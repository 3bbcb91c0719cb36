"""What an answer of AWS KMS means to whoever wanted a key."""

from __future__ import annotations

from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from sealcar.errors import KeyRefusedError, KeyUnavailableError, SealcarError

_RETRY: Final = 5.0
# of the wrapped key
_NOT_OURS: Final = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})
# another set of credentials may have been put in place since
CREDENTIALS: Final = frozenset(
    {
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "UnrecognizedClientException",
    }
)
# of the key-encryption key or of the daemon's right to it
_REFUSED: Final = {
    "AccessDeniedException": "the daemon's identity may not use it",
    "DisabledException": "it is disabled",
    "ExpiredTokenException": "the daemon's credentials have expired",
    "IncompleteSignature": "the daemon's credentials are wrong",
    "InvalidClientTokenId": "the daemon's credentials are wrong",
    "InvalidGrantTokenException": "the grant is wrong",
    "InvalidKeyUsageException": "it isn't for encryption",
    "InvalidSignatureException": "the daemon's credentials are wrong",
    "KMSInvalidStateException": "it is being deleted, or its key store is disconnected",
    "NotFoundException": "there is no such key",
    "UnrecognizedClientException": "the daemon's credentials are wrong",
    "ValidationException": "it can't be used as configured",
}


def code_of(error: ClientError) -> str:
    """Return the service's word for an error."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))[:60]


def meaning(error: Exception, place: str) -> SealcarError:
    """Return our error; of theirs it tells the code, never the text."""
    if not isinstance(error, ClientError):
        name = type(error).__name__
        reason = "can't be reached" if isinstance(error, BotoCoreError) else "fails"
        return KeyUnavailableError(f"{place}: the service {reason} ({name})", retry_after=_RETRY)
    code = code_of(error)
    if code in _NOT_OURS:
        return KeyRefusedError(f"{place}: the wrapped key doesn't belong to this package and key")
    if code in _REFUSED:
        return KeyRefusedError(f"{place}: {_REFUSED[code]} ({code})")
    return KeyUnavailableError(f"{place}: the service has no answer ({code})", retry_after=_RETRY)
