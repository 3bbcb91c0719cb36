"""A payload on its way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.closing import Closing

if TYPE_CHECKING:
    from sealcar_server.access.permit import Permit
    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.service.values import PayloadValue, ScopeKey


@dataclass(frozen=True)
class PayloadSource(Closing):
    """A payload open for reading; closing it is its holder's business.

    Attributes:
        scope: resolved.
        payload: what is read.
        reader: its last segment has been checked, unless it is the only one and is read next.
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
