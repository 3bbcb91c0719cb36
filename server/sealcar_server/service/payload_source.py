"""A payload on its way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from sealcar_server.access.permit import Permit
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.service.values import PayloadValue, ScopeKey


@dataclass(frozen=True)
class PayloadSource:
    """A payload open for reading; closing it is its holder's business.

    Attributes:
        scope: resolved.
        payload: what is read.
        reader: its last segment has been checked.
        permit: to be checked while it is read.
    """

    scope: ScopeKey
    payload: PayloadValue
    reader: SealedReader
    permit: Permit

    @property
    def size(self) -> int:
        """Plaintext bytes."""
        return self.payload.size

    def close(self) -> None:
        """Close the reader; twice is fine."""
        self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
