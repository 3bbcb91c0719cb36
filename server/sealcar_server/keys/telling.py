"""What clients are told when a key provider doesn't do what they need.

A provider's reason is written for operators: it may name the daemon's files, whose paths are nobody
else's business. A text with a slash in it is taken for such a one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import KeyRefusedError, KeyUnavailableError

if TYPE_CHECKING:
    from sealcar.errors import SealcarError


def for_clients(error: SealcarError, alias: str) -> SealcarError:
    """Return an error of the same class, place and time to retry, which names the key by its alias.

    Args:
        error: of a provider.
        alias: of its key-encryption key.
    """
    message = _general(error) if "/" in error.message else error.message
    return type(error)(
        f"key-encryption key {alias!a}: {message}",
        place=error.place,
        retry_after=error.retry_after,
    )


def _general(error: SealcarError) -> str:
    if isinstance(error, KeyUnavailableError):
        return "it can't be reached now: try again later; the daemon's log says what is wrong"
    if isinstance(error, KeyRefusedError):
        return "it is refused: the daemon's operator finds in its log why"
    return "it can't be used as it is: the daemon's operator finds in its log why"
