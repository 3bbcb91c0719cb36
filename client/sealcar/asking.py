"""Questions to a daemon: what can't be put into a message is the mistake of whoever asks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sealcar.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def asking() -> Iterator[None]:
    """Tell that a value doesn't fit into the message that is made here.

    Raises:
        InvalidRequestError: a text is no UTF-8, a number is out of range, or it's another type.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"this can't be asked: {error}") from error
