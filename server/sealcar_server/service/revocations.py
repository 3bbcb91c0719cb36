"""Versions of key-encryption keys that an operator revoked: refused, whatever their provider says.

The file lies in the daemon's state directory and is written before anything else happens. Nothing
here takes a revocation back.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Final

from sealcar.errors import KeyRefusedError, StorageError
from sealcar_server.service import state_file

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "revoked.json"
_FORMAT: Final = "1"
_LIMIT: Final = 16 << 20


class Revocations:
    """The memory of one daemon; safe to share between threads.

    Args:
        state: directory that only the daemon can write.

    Raises:
        StorageError: what it wrote before can't be read; no key is given out then.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._revoked = _load(state)

    def add(self, alias: str, version: str) -> None:
        """Revoke a version, durably; fine if it is.

        Raises:
            ExhaustedError, StorageError: it holds until the daemon ends, and not longer.
        """
        with self._lock:
            self._revoked = self._revoked | {(alias, version)}
            listed = [list(pair) for pair in sorted(self._revoked)]
            text = json.dumps({"format": _FORMAT, "revoked": listed})
            state_file.replace(self._state, FILE, text.encode())

    def of(self, alias: str) -> list[str]:
        """Return the versions of a key that are revoked."""
        return sorted(version for name, version in self._revoked if name == alias)

    def refuse(self, alias: str, version: str) -> None:
        """Return unless a version is revoked; KeyRefusedError if it is."""
        if (alias, version) in self._revoked:
            raise KeyRefusedError(f"version {version} of key {alias} is revoked")


def _load(state: Path) -> frozenset[tuple[str, str]]:
    data = state_file.read(state, FILE, _LIMIT)
    if data is None:
        return frozenset()
    try:
        document = json.loads(data)
        pairs = frozenset((str(alias), str(version)) for alias, version in document["revoked"])
        known = document["format"] == _FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{state / FILE} is damaged: restore it") from error
    if not known:
        raise StorageError(f"{state / FILE} is of a format that this release doesn't know")
    return pairs
