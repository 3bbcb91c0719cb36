"""Versions that were removed, for other daemons that have the same store.

Each remembers what it has seen, and takes what is older for a rollback. Of a version that another
one removed it learns from a small object under the store's own key, and from nothing else.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import ConflictError, NotAuthenticError
from sealcar_server.sealing.fields import Fields
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import tagged

if TYPE_CHECKING:
    from sealcar_server.service.rollback import Seen
    from sealcar_server.service.store_key import StoreKey
    from sealcar_server.store.interface import Store

_ATTEMPTS: Final = 16
_WHAT: Final = "the note of a removed version"


class Departures:
    """Reads and writes notes; safe to share between threads. Nothing at all where nobody shares."""

    def __init__(self, store: Store, key: StoreKey, seen: Seen) -> None:
        self._store, self._key, self._seen = store, key, seen
        store.tell(self.note)

    def note(self, name: str, version: str, generation: int, after: int = 0) -> None:
        """Tell other daemons that a version is removed, of which this was a generation.

        Args:
            name: of the package.
            version: of it.
            generation: up to this one it is removed.
            after: only if somebody noted that it is removed up to this one; 0: in any case.

        Raises:
            ConflictError: others write notes all the time.
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
            DamagedError: there is a note that isn't authentic.
            ExhaustedError, StorageError: it can't be written.
        """
        for _ in range(_ATTEMPTS):
            noted = self._noted(name, version)
            if noted >= generation or noted < after:
                return
            value = {"name": name, "version": version, "removed": generation}
            text = json.dumps(value, separators=(",", ":")).encode()
            with self._key.open() as keys:
                data = tagged.tagged(text, keys)
            try:
                self._store.write_departure(name, version, data)
            except ConflictError:
                continue
            return
        raise ConflictError("other daemons remove the version too: try again")

    def settle(self, name: str, version: str) -> None:
        """Remember that a version was removed, if another daemon says so, and it is gone.

        Raises:
            NotAuthenticError: the note isn't the store's.
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
        """
        removed = self._noted(name, version) if self._store.refresh else 0
        seen = self._seen.package(name, version)
        if removed <= (seen.removed if seen else 0):
            return
        self._store.look_anew(name, version)
        # whoever is killed while he removes it leaves it as it was
        if not any(number <= removed for number in self._store.numbers(name, version)):
            self._seen.departed(name, version, removed)

    def _noted(self, name: str, version: str) -> int:
        """Return up to which generation a version was removed; 0: it never was."""
        data = self._store.read_departure(name, version)
        if data is None:
            return 0
        text, tag = tagged.parsed(data, _WHAT)
        with self._key.open() as keys:
            keys.verify_tag(text, tag)
        fields = Fields(strict_json(text, _WHAT, error=NotAuthenticError), what=_WHAT)
        found = fields.text("name", names.store_name), fields.text("version", names.store_name)
        removed = fields.integer("removed", 1)
        fields.end()
        if found != (name, version):
            raise NotAuthenticError(f"{_WHAT} is {'@'.join(found)}'s")
        return removed
