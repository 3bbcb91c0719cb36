"""What the key ring tells whoever measures it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


class Meter(Protocol):
    """Takes measurements; must be fast and safe to call from any thread."""

    def cached(self, result: str, count: int = 1) -> None:
        """Count what became of keys and the cache: "hit", "miss", "expired" or "forgotten"."""

    def answered(self, alias: str, up: bool) -> None:  # noqa: FBT001  (a hook's argument)
        """A key's provider answered, be it with a refusal; or it didn't."""

    def asking(self, operation: str, alias: str) -> AbstractContextManager[None]:
        """Measure one request to a provider, and count it by what comes of it."""


class _Unmetered:
    def cached(self, result: str, count: int = 1) -> None:
        """Forget it."""

    def answered(self, alias: str, up: bool) -> None:  # noqa: FBT001  (a hook's argument)
        """Forget it."""

    def asking(self, operation: str, alias: str) -> AbstractContextManager[None]:  # noqa: ARG002  (a hook's)
        """Measure nothing."""
        return nullcontext()


UNMETERED: Final[Meter] = _Unmetered()
