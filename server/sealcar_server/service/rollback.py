"""What this daemon has seen, so that nobody can show it an older store unnoticed.

The file lies in the daemon's state directory, not in the store. It is replaced by rename after
every new sighting. A disk that is full keeps nobody from working: until the next sighting can be
written, what was seen is remembered by this process alone, and the log says so. But what can't be
remembered isn't removed.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from sealcar.errors import SealcarError, StorageError
from sealcar_server.service import state_file

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "seen.json"
_FORMAT: Final = "1"
_LIMIT: Final = 256 * 1024 * 1024
_log: Final = structlog.get_logger("sealcar.rollback")


_Place: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Sighting:
    """The highest generation of a package's version that was found authentic, and its record.

    Attributes:
        generation: its number.
        record: SHA-256 of its record; empty if it was removed before anybody had opened it.
        removed: generations up to this one were removed with the whole version: one of them that
            is there again was put back from a copy. 0: none was.
        key: fingerprint of the package's key; empty if it isn't known.
    """

    generation: int
    record: bytes
    removed: int = 0
    key: bytes = b""


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
        self._packages, self._pointers, self._leaving = _load(state)

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
            if known is None:
                self._packages[name, version] = sighting
                self._save()
            elif known.generation < sighting.generation:
                self._packages[name, version] = replace(sighting, removed=known.removed)
                self._save()
            elif not known.key and known.record == sighting.record:
                self._packages[name, version] = replace(known, key=sighting.key)
                self._save()

    def leaving(self, name: str, version: str, newest: int) -> None:
        """Remember that a version is about to be removed: if it is gone, it was.

        So whoever is killed meanwhile finds it as it was, or removed.

        Args:
            name: of the package.
            version: of it.
            newest: the number of its newest generation.

        Raises:
            ExhaustedError, StorageError: it can't be saved, so nothing may be removed.
        """
        with self._lock:
            self._leaving[name, version] = newest
            try:
                self._write()
            except SealcarError:
                del self._leaving[name, version]
                raise

    def left(self, name: str, version: str) -> None:
        """Remember that a version is removed, after `leaving`."""
        with self._lock:
            newest = self._leaving.pop((name, version))
            known = self._packages.get((name, version), Sighting(0, b""))
            last = max(newest, known.generation)
            self._packages[name, version] = replace(known, generation=last, removed=last)
            self._save()

    def departed(self, name: str, version: str, generation: int) -> None:
        """Remember that another daemon removed a version, whose newest generation this was."""
        with self._lock:
            known = self._packages.get((name, version), Sighting(0, b""))
            now = replace(
                known,
                generation=max(known.generation, generation),
                removed=max(known.removed, generation),
            )
            if now != known:
                self._packages[name, version] = now
                self._save()

    def stays(self, name: str, version: str) -> None:
        """Forget that a version was about to be removed."""
        with self._lock:
            self._leaving.pop((name, version), None)
            self._save()

    def all_leaving(self) -> list[tuple[str, str]]:
        """Return the versions that were about to be removed, by name and version."""
        return sorted(self._leaving)

    def standing(self, name: str, version: str) -> tuple[Sighting | None, bool]:
        """Return the highest sighting, and whether the version is about to be removed."""
        with self._lock:
            place = (name, version)
            return self._packages.get(place), place in self._leaving

    def saw_pointer(self, name: str, sequence: int) -> None:
        """Remember a pointer's sequence number, if it is higher than the highest."""
        with self._lock:
            if self._pointers.get(name, 0) < sequence:
                self._pointers[name] = sequence
                self._save()

    def _save(self) -> None:
        try:
            self._write()
        except SealcarError as error:
            _log.error(
                "what was seen can't be saved: a rollback over a restart would go unnoticed",
                reason=error.message,
            )

    def _write(self) -> None:
        nested: dict[str, dict[str, dict[str, str | int]]] = {}
        for (name, version), seen in self._packages.items():
            entry: dict[str, str | int] = {"generation": seen.generation}
            entry |= {"record": seen.record.hex()}
            entry |= {"removed": seen.removed} if seen.removed else {}
            entry |= {"key": seen.key.hex()} if seen.key else {}
            nested.setdefault(name, {})[version] = entry
        leaving: dict[str, dict[str, int]] = {}
        for (name, version), newest in self._leaving.items():
            leaving.setdefault(name, {})[version] = newest
        document = {"packages": nested, "current": self._pointers, "leaving": leaving}
        text = json.dumps({"format": _FORMAT, **document})
        state_file.replace(self._state, FILE, text.encode())


_Memory: TypeAlias = tuple[dict[_Place, Sighting], dict[str, int], dict[_Place, int]]


def _load(state: Path) -> _Memory:
    data = state_file.read(state, FILE, _LIMIT)
    if data is None:
        return {}, {}, {}
    try:
        return _parsed(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{state / FILE} is damaged: restore it, or remove it to forget what was seen"
        ) from error


def _parsed(document: Any) -> _Memory:  # noqa: ANN401  (JSON)
    if document["format"] != _FORMAT:
        raise ValueError
    packages = {
        (name, version): Sighting(
            int(entry["generation"]),
            bytes.fromhex(entry["record"]),
            int(entry.get("removed", 0)),
            bytes.fromhex(entry.get("key", "")),
        )
        for name, versions in document["packages"].items()
        for version, entry in versions.items()
    }
    pointers = {name: int(sequence) for name, sequence in document["current"].items()}
    leaving = {
        (name, version): int(newest)
        for name, versions in document.get("leaving", {}).items()
        for version, newest in versions.items()
    }
    return packages, pointers, leaving
