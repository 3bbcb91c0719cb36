"""The keys that an import works with: it has them already, and may go on as long as they are given.

Who sends slowly could else have a package sealed, or opened, with a key that was revoked meanwhile,
whose service doesn't give it any more, or whose daemon was locked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sealcar_server.access.permit import Permit
    from sealcar_server.keys.provider import WrappedKey
    from sealcar_server.service.custody import Custody


@dataclass(frozen=True)
class Use:
    """One wrap of the package's key: under which key, and for what it was wrapped."""

    alias: str
    wrapped: WrappedKey = field(repr=False)
    context: bytes = field(repr=False)


@dataclass(frozen=True)
class KeysInUse:
    """All of an import's; safe to share between threads.

    Attributes:
        keyring: of the daemon.
        uses: every wrap that the package is opened by, or will be.
    """

    keyring: Custody
    uses: tuple[Use, ...]

    def bind(self, permit: Permit) -> None:
        """Let a permit fall with the keys."""
        permit.bind(self.admit)
        permit.bind_key(self.ask)

    def admit(self) -> None:
        """Return while nothing here forbids to go on; nobody is asked.

        Raises:
            LockedError: there is no key now.
            KeyRefusedError: a version is revoked.
        """
        for use in self.uses:
            self.keyring.admit(use.alias, use.wrapped.version)

    def ask(self) -> None:
        """Return if the package's key can be had now. May block.

        Raises:
            LockedError, KeyRefusedError, KeyUnavailableError: it can't.
        """
        for use in self.uses:
            self.keyring.unwrap(use.alias, use.wrapped, use.context).close()
