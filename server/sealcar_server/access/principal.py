"""Who calls: what the kernel says of the other end of a connection, or a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

NOBODY: Final = 2**32 - 1  # the kernel's own "no id": no process has it, no grant can name it


@dataclass(frozen=True)
class Principal:
    """A caller as the policy knows it.

    Attributes:
        listener: name of the listener that was called, as in the settings; empty over TLS.
        uid, gid: effective ids of the process that connected, at the time of connect(2).
        spiffe: the identity in its certificate, for callers over TLS: those have nothing else.
    """

    listener: str
    uid: int
    gid: int
    spiffe: str = ""

    @classmethod
    def remote(cls, spiffe: str) -> Self:
        """Return a caller over TLS, who has no uid here."""
        return cls("", NOBODY, NOBODY, spiffe)

    @property
    def account(self) -> str:
        """Whom limits count together."""
        return self.spiffe or f"uid {self.uid}"

    @property
    def described(self) -> dict[str, str | int]:
        """What the audit log says of the caller."""
        if self.spiffe:
            return {"spiffe": self.spiffe}
        return {"uid": self.uid, "gid": self.gid, "listener": self.listener}

    def __str__(self) -> str:
        """Render for messages and logs."""
        return self.spiffe or f"uid {self.uid}, gid {self.gid}, listener {self.listener}"
