"""Pins: the least generation that an operator lets be opened, wherever a store comes from.

What a daemon has seen is lost with its state, and a daemon that begins with an old copy has seen
nothing newer. A pin stands in the policy, and holds from the first opening on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import DeniedError, RolledBackError

if TYPE_CHECKING:
    from sealcar_server.access.bounds import Bounds


@dataclass(frozen=True)
class Pinning:
    """Safe to share between threads.

    Attributes:
        bounds: the policy.
        required: whoever reads reads only what is pinned.
    """

    bounds: Bounds
    required: bool = False

    def check(self, name: str, version: str, number: int) -> None:
        """Return if a generation is no older than its pin allows.

        Raises:
            RolledBackError: it is.
        """
        least = self.bounds.least(name, version)
        if number < least:
            raise RolledBackError(
                f"generation {number} is older than {least}, the least that a pin of the policy "
                "allows"
            )

    def require(self, name: str, version: str) -> None:
        """Return if a version may be read: it is pinned, or needn't be.

        Raises:
            DeniedError: it may not.
        """
        if self.required and not self.bounds.least(name, version):
            raise DeniedError(
                f"no pin is about version {version}, and rollback.require_pins is set: have an "
                "operator add a [[pin]] with its min_generation to the policy"
            )

    def includes(self, name: str, version: str, number: int) -> bool:
        """Tell whether a generation is the one that is pinned, which stays."""
        return self.bounds.least(name, version) == number
