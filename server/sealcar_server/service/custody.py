"""The key ring as operators let it be used.

A lock drops it, with every key in it. A revoked version is refused on the way in and on the way
out, so that neither a cache nor a call under way gets round it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from sealcar.closing import Closing
from sealcar.errors import KeyRefusedError, LockedError
from sealcar_server.service.gate import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sealcar_server.keys.provider import KekStatus, TinkCiphertext, WrappedKey
    from sealcar_server.keys.ring import KeyRing
    from sealcar_server.sealing.secret import SecretBuffer
    from sealcar_server.service.revocations import Revocations


class Custody(Closing):
    """Wraps and unwraps as `KeyRing` does. Thread-safe.

    Args:
        open_ring: makes a ring; called at every unlocking.
        revocations: versions that are refused.
        locked: begin without one.

    Raises:
        SealcarError: whatever `open_ring` raises.
    """

    def __init__(
        self, open_ring: Callable[[], KeyRing], revocations: Revocations, *, locked: bool = False
    ) -> None:
        self._open_ring, self.revocations = open_ring, revocations
        self._changed = threading.Condition()
        self._asking = 0
        self._ring: KeyRing | None = None if locked else open_ring()

    @property
    def locked(self) -> bool:
        """Whether there is no ring."""
        return self._ring is None

    @property
    def cached(self) -> int:
        """How many unwrapped package keys are held."""
        ring = self._ring
        return 0 if ring is None else ring.cached

    def wrap(self, alias: str, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key for a context; LockedError, or as the ring raises."""
        with self._using() as ring:
            wrapped = ring.wrap(alias, key, context)
        self.revocations.refuse(alias, wrapped.version)
        return wrapped

    def unwrap(self, alias: str, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return a copy of the key; LockedError, or as the ring raises."""
        with self._using() as ring:
            self.revocations.refuse(alias, wrapped.version)
            key = ring.unwrap(alias, wrapped, context)
        try:
            self.revocations.refuse(alias, wrapped.version)
        except KeyRefusedError:
            key.close()
            raise
        return key

    def rewrap(self, alias: str, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Return the same key under the current version; LockedError, or as the ring raises."""
        with self._using() as ring:
            self.revocations.refuse(alias, wrapped.version)
            rewrapped = ring.rewrap(alias, wrapped, context)
        self.revocations.refuse(alias, rewrapped.version)
        return rewrapped

    def forget(self, aliases: Iterable[str]) -> None:
        """Wipe the cached keys of these; fine if there are none, or no such alias."""
        with suppress(LockedError), self._using() as ring:
            for alias in {*aliases}:
                with suppress(KeyRefusedError):
                    ring.forget(alias)

    def rotate(self, alias: str) -> str:
        """Make a new version of a key; LockedError, or as the ring raises."""
        with self._using() as ring:
            return ring.rotate(alias)

    def encrypt_for_tink(self, alias: str, text: bytes, associated_data: bytes) -> TinkCiphertext:
        """Have a keyset encrypted for Tink; LockedError, or as the ring raises."""
        with self._using() as ring:
            return ring.encrypt_for_tink(alias, text, associated_data)

    def current_version(self, alias: str) -> str:
        """Return the version that wraps; LockedError, or as the ring raises."""
        with self._using() as ring:
            return ring.current_version(alias)

    def opens(self, alias: str) -> bool:
        """Tell whether what is wrapped under it opens here; LockedError, or as the ring raises."""
        with self._using() as ring:
            return ring.opens(alias)

    def alias_of(self, kind: str, version: str) -> str:
        """Return the alias of a key of this kind and version, if any; LockedError."""
        with self._using() as ring:
            return ring.alias_of(kind, version)

    def versions(self, alias: str) -> tuple[str, ...]:
        """Return the versions that unwrap, if the provider tells; raises as the ring does."""
        with self._using() as ring:
            return ring.describe(alias).versions

    def admit(self, alias: str, version: str) -> None:
        """Return if what is under this version may be opened.

        Raises:
            LockedError: there is no key now.
            KeyRefusedError: the version is revoked.
        """
        with self._using():
            self.revocations.refuse(alias, version)

    def revoke(self, alias: str, version: str) -> None:
        """Refuse a version from now on, and forget the keys that were unwrapped by it.

        Raises:
            LockedError, KeyRefusedError: there is no such key now.
            ExhaustedError, StorageError: it holds until the daemon ends, and not longer.
        """
        with self._using() as ring:
            try:
                self.revocations.add(alias, version)
            finally:
                ring.forget(alias)

    def status(self) -> list[KekStatus]:
        """Ask every provider for its health; nobody is asked while it is locked."""
        if self.locked:
            return []
        with self._using() as ring:
            return ring.status()

    def lock(self) -> None:
        """Wipe every key and close every provider, once those who use them have ended."""
        with self._changed:
            ring, self._ring = self._ring, None
            while self._asking:
                self._changed.wait()
        if ring is not None:
            ring.close()

    def unlock(self) -> None:
        """Open the providers again; fine if they are open.

        Raises:
            SealcarError: whatever opening them raises; it stays locked.
        """
        with self._changed:
            if self._ring is None:
                self._ring = self._open_ring()

    def close(self) -> None:
        """Lock it for good."""
        self.lock()

    def _using(self) -> _Using:
        return _Using(self._begin, self._end)

    def _begin(self) -> KeyRing:
        with self._changed:
            if self._ring is None:
                raise locked()
            self._asking += 1
            return self._ring

    def _end(self) -> None:
        with self._changed:
            self._asking -= 1
            if not self._asking:
                self._changed.notify_all()


class _Using:
    # every read passes two of these: a generator would take three times as long
    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], KeyRing], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end

    def __enter__(self) -> KeyRing:
        return self._begin()

    def __exit__(self, *_: object) -> None:
        self._end()
