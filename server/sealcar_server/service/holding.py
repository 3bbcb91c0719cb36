"""What operators are told after keys were taken away, and whom the keys' service asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealcar_server.access.principal import Principal
    from sealcar_server.service.shredding import Grave


@dataclass(frozen=True)
class Holder:
    """A client process that was handed plaintext, and is connected still.

    Attributes:
        session: its id.
        principal: who it is.
        pid: 0 if it isn't known.
    """

    session: str
    principal: Principal
    pid: int


@dataclass(frozen=True)
class Revoked:
    """What a revocation did.

    Attributes:
        alias, version: what is refused now.
        packages: whose newest generation can't be opened any more.
        older: older generations that can't.
        aborted: transactions.
        holders: who was handed plaintext, of whatever package.
    """

    alias: str
    version: str
    packages: int
    older: int
    aborted: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class Shredded:
    """What a shredding did.

    Attributes:
        graves: what lay where.
        aborted: transactions.
        holders: who was handed plaintext, of whatever package.
    """

    graves: tuple[Grave, ...]
    aborted: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class Locked:
    """What locking couldn't take back, and how many transactions it aborted."""

    holders: tuple[Holder, ...]
    aborted: int


class Doors(Protocol):
    """Where transfers go on."""

    def check_permits(self) -> None:
        """End the transfers whose permits have fallen."""

    def end_transfers(self) -> None:
        """End all transfers, whose permits have fallen, and return when they have ended."""

    def holders(self) -> Sequence[Holder]:
        """Return who was handed plaintext."""

    def report(self, *, locked: bool) -> None:
        """Tell whoever watches the daemon's health."""


class _NoDoors:
    def check_permits(self) -> None:
        """There are no transfers."""

    def end_transfers(self) -> None:
        """There are none."""

    def holders(self) -> Sequence[Holder]:
        """Nobody was handed anything."""
        return ()

    def report(self, *, locked: bool) -> None:
        """Nobody watches."""


NO_DOORS: Final[Doors] = _NoDoors()
