"""Bodies of requests that don't wait in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Once:
    """A body of known size that is made while it is sent.

    Args:
        size: in bytes.
        pieces: them.
    """

    def __init__(self, size: int, pieces: Iterator[bytes]) -> None:
        self._size, self._pieces = size, pieces

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces
