"""Which generations stay although newer ones followed, whoever tidies up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from sealcar_server.service.registry import Registry
    from sealcar_server.service.uses import Uses


class Pins(Protocol):
    """What may not go, however old it is."""

    def includes(self, name: str, version: str, number: int) -> bool:
        """Tell whether a generation is pinned."""


class _NoPins:
    def includes(self, _name: str, _version: str, _number: int) -> bool:
        """Nothing is."""
        return False


NO_PINS: Final[Pins] = _NoPins()


@dataclass(frozen=True)
class Keeping:
    """Safe to share between threads.

    Attributes:
        registry: what its transactions are based on stays.
        uses: what is in use stays.
        pins: what is pinned stays.
    """

    registry: Registry
    uses: Uses
    pins: Pins = NO_PINS

    def includes(self, name: str, version: str, number: int) -> bool:
        """Tell whether a generation has to stay."""
        return (
            number in self.registry.bases(name, version)
            or self.uses.includes(name, version, number)
            or self.pins.includes(name, version, number)
        )
