"""Whom a package is sealed for: the options of what lets packages out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sealcar.errors import InvalidRequestError, StorageError
from sealcar.exports import Recipient

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_KEY: Final = 64 << 10
_NOT_AFTER: Final = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])


def for_somebody(form: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command `--to`, `--not-after` and `--sign`.

    Args:
        form: what of `--to` it makes, a sentence.
    """
    options = (
        click.option(
            "--to",
            "recipient",
            metavar="RECIPIENT",
            help="Sealed for somebody else: the alias of his key in the daemon's settings,"
            f" or file:PATH of his public key. {form}".rstrip(),
        ),
        click.option(
            "--not-after",
            type=_NOT_AFTER,
            metavar="DATE",
            help="With --to: nobody takes the package in later (UTC).",
        ),
        click.option(
            "--sign",
            is_flag=True,
            help="With --to: fail if the daemon has no key to sign with.",
        ),
    )

    def given(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return given


def recipient(text: str | None, not_after: datetime | None, *, sign: bool) -> Recipient | None:
    """Return whom these options name; None: nobody else.

    Raises:
        InvalidRequestError: they don't fit together, or name no public key.
        StorageError: the key can't be read.
    """
    if text is None:
        if not_after or sign:
            raise InvalidRequestError("--not-after and --sign need --to")
        return None
    end = int(not_after.replace(tzinfo=UTC).timestamp()) if not_after else 0
    if not_after and end <= 0:  # there, 0 means no end
        raise InvalidRequestError("--not-after must be a date after 1970-01-01")
    scheme, colon, path = text.partition(":")
    # an empty one is a variable that isn't set, and nobody's package
    if text and not colon:
        return Recipient(text, not_after=end, signed=sign)
    if scheme != "file":
        raise InvalidRequestError("--to takes an alias of the daemon's settings, or file:PATH")
    try:
        with Path(path).open("rb") as file:
            key = file.read(_MOST_KEY + 1)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    if len(key) > _MOST_KEY:
        raise InvalidRequestError(f"{path} is no public key: over {_MOST_KEY} bytes")
    if b"PRIVATE KEY" in key:
        raise InvalidRequestError(f"{path} holds a private key: it never goes to anybody")
    return Recipient(key=key, not_after=end, signed=sign)
