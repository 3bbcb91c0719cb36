"""What this daemon has seen, so that nobody can show it an older store unnoticed.

The file lies in the daemon's state directory, not in the store. It is replaced by rename after
every new sighting. A disk that is full keeps nobody from working: until the next sighting can be
written, what was seen is remembered by this process alone, and the log says so.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from sealcar.errors import SealcarError, StorageError
from sealcar_server.service import state_file

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "seen.json"
_FORMAT: Final = "1"
_LIMIT: Final = 256 * 1024 * 1024
_log: Final = structlog.get_logger("sealcar.rollback")


@dataclass(frozen=True)
class Sighting:
    """The highest generation of a package's version that was found authentic, and its record."""

    generation: int
    record: bytes


class Seen:
    """The memory of one daemon; safe to share between threads.

    Args:
        state: directory that only the daemon can write.

    Raises:
        StorageError: what it wrote before can't be read; nothing is believed then.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._packages, self._pointers = _load(state)

    def package(self, name: str, version: str) -> Sighting | None:
        """Return the highest sighting."""
        return self._packages.get((name, version))

    def pointer(self, name: str) -> int:
        """Return the highest sequence number of a pointer to a current version; 0 if none."""
        return self._pointers.get(name, 0)

    def saw(self, name: str, version: str, sighting: Sighting) -> None:
        """Remember a generation, if it is higher than the highest."""
        with self._lock:
            known = self._packages.get((name, version))
            if known is None or known.generation < sighting.generation:
                self._packages[name, version] = sighting
                self._save()

    def saw_pointer(self, name: str, sequence: int) -> None:
        """Remember a pointer's sequence number, if it is higher than the highest."""
        with self._lock:
            if self._pointers.get(name, 0) < sequence:
                self._pointers[name] = sequence
                self._save()

    def _save(self) -> None:
        nested: dict[str, dict[str, dict[str, str | int]]] = {}
        for (name, version), seen in self._packages.items():
            entry: dict[str, str | int] = {"generation": seen.generation}
            entry["record"] = seen.record.hex()
            nested.setdefault(name, {})[version] = entry
        text = json.dumps({"format": _FORMAT, "packages": nested, "current": self._pointers})
        try:
            state_file.replace(self._state, FILE, text.encode())
        except SealcarError as error:
            _log.error(
                "what was seen can't be saved: a rollback over a restart would go unnoticed",
                reason=error.message,
            )


def _load(state: Path) -> tuple[dict[tuple[str, str], Sighting], dict[str, int]]:
    data = state_file.read(state, FILE, _LIMIT)
    if data is None:
        return {}, {}
    try:
        return _parsed(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{state / FILE} is damaged: restore it, or remove it to forget what was seen"
        ) from error


def _parsed(document: Any) -> tuple[dict[tuple[str, str], Sighting], dict[str, int]]:  # noqa: ANN401  (JSON)
    if document["format"] != _FORMAT:
        raise ValueError
    packages = {
        (name, version): Sighting(int(entry["generation"]), bytes.fromhex(entry["record"]))
        for name, versions in document["packages"].items()
        for version, entry in versions.items()
    }
    return packages, {name: int(sequence) for name, sequence in document["current"].items()}
