"""Who calls: what the kernel says of the other end of a connection."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Principal:
    """A caller as the policy knows it.

    Attributes:
        listener: name of the listener that was called, as in the settings.
        uid, gid: effective ids of the process that connected, at the time of connect(2).
    """

    listener: str
    uid: int
    gid: int

    def __str__(self) -> str:
        """Render for messages and logs."""
        return f"uid {self.uid}, gid {self.gid}, listener {self.listener}"
