"""What an operator may know of the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sealcar_server.keys.ring import KekStatus, KeyRing


class Keys:
    """Reached through the admin socket only, whose file mode is its policy."""

    def __init__(self, keyring: KeyRing) -> None:
        self._keyring = keyring

    def status(self) -> tuple[KekStatus, ...]:
        """Ask every key provider for its health."""
        return tuple(self._keyring.status())
