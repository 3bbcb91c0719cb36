"""What operators do with keys."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import (
    ConfigurationError,
    InvalidRequestError,
    KeyRefusedError,
    KeyUnavailableError,
    NotFoundError,
    RuntimeSupportError,
    WrongStateError,
)
from sealcar_server.service.failing import during
from sealcar_server.service.hanging import hanging
from sealcar_server.service.holding import NO_DOORS, Doors, Locked, Revoked, Shredded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.keys.provider import KekStatus
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.gate import Gate
    from sealcar_server.service.hanging import Hanging
    from sealcar_server.service.registry import Registry
    from sealcar_server.service.rewrapping import Progress, Rewrapped, Rewrapper, Wanted
    from sealcar_server.service.shredding import Shredder
    from sealcar_server.service.store_key import StoreKey
    from sealcar_server.store.interface import Store

_log: Final = structlog.get_logger("sealcar.keys")


@contextmanager
def _as_seen_from_afar() -> Iterator[None]:
    """Turn what is wrong with the daemon's own settings into what the caller can be told."""
    try:
        yield
    except (ConfigurationError, RuntimeSupportError) as error:
        raise KeyUnavailableError(error.message) from error


@dataclass(frozen=True)
class Works:
    """What is done to many packages: moving them, removing them."""

    rewrapper: Rewrapper
    shredder: Shredder


class Keys:
    """Reached through the admin socket only, whose file mode is its policy.

    Args:
        custody: of the keys.
        gate: closed while the daemon is locked.
        store: whose packages hang on the keys.
        store_key: has to be had before anything is unlocked.
        works: on packages.
        registry: of the transactions that locking aborts.
    """

    def __init__(
        self,
        custody: Custody,
        gate: Gate,
        store: Store,
        *,
        store_key: StoreKey,
        works: Works,
        registry: Registry,
    ) -> None:
        self._custody, self._gate, self._store = custody, gate, store
        self._store_key, self._works, self._registry = store_key, works, registry
        self._doors: Doors = NO_DOORS
        self._turn = threading.Lock()

    @property
    def locked(self) -> bool:
        """Whether the daemon has no keys."""
        return self._gate.locked

    def serve_behind(self, doors: Doors) -> None:
        """Let these know when transfers have to end."""
        with self._turn:
            self._doors = doors
            doors.report(locked=self._gate.locked)

    def status(self) -> tuple[KekStatus, ...]:
        """Ask every key provider for its health; nobody is asked while the daemon is locked."""
        return tuple(self._custody.status())

    def rotate(self, alias: str = "") -> tuple[str, str]:
        """Give a key-encryption key a new version; return alias and version.

        Args:
            alias: empty: the one that the store's own key is under.

        Raises:
            WrongStateError: this kind of key gets its versions elsewhere.
            KeyRefusedError, KeyUnavailableError, ConflictError, StorageError: there is no new
                version; the old one goes on.
        """
        alias = alias or self._store.identity.kek_alias
        with during("rotate"), _as_seen_from_afar():
            version = self._custody.rotate(alias)
        _log.info("key rotated", alias=alias, version=version)
        return alias, version

    def rewrap(self, wanted: Wanted, progress: Progress) -> Rewrapped:
        """Move packages to the current version; see `Rewrapper.run`."""
        return self._works.rewrapper.run(wanted, progress)

    def report(self) -> Iterator[Hanging]:
        """Tell what hangs on which version; see `hanging`."""
        with during("report"):
            yield from hanging(self._store)

    def revoke(self, version: str, alias: str = "") -> Revoked:
        """Refuse a version of a key-encryption key from now on, cached keys included.

        Transfers of packages with a generation under it end.

        Args:
            version: which.
            alias: empty: the key that the store's own key is under.

        Raises:
            WrongStateError: it wraps new keys, or the store's own key is under it.
            NotFoundError: the key has no such version.
            LockedError, KeyRefusedError, KeyUnavailableError: there is no such key now.
            ExhaustedError, StorageError: it holds until the daemon ends, and not longer.
        """
        alias = alias or self._store.identity.kek_alias
        with during("revoke"):
            self._refuse_indispensable(alias, version)
            self._custody.revoke(alias, version)
            found = [
                one
                for one in hanging(self._store)
                if (one.kek_alias, one.kek_version) == (alias, version)
            ]
            names = {one.name for one in found}
            self._gate.end(
                names, KeyRefusedError(f"version {version} of key {alias} is revoked: open it anew")
            )
            self._doors.check_permits()
            newest = {(one.name, one.version) for one in found if one.newest}
            aborted = self._registry.revoke(
                lambda one: (one.scope.package, one.scope.version) in newest
            )
        _log.warning("key version revoked", alias=alias, version=version, packages=len(newest))
        older = len(found) - len(newest)
        holders = tuple(self._doors.holders())
        return Revoked(alias, version, len(newest), older, aborted, holders)

    def shred(self, name: str, version: str = "") -> Shredded:
        """Remove every generation of a package, and with it the wrapped key, for good.

        Args:
            name: of the package.
            version: empty: all of them.

        Raises:
            NotFoundError: there is none.
            LockedError, KeyRefusedError, KeyUnavailableError: the store's own key can't be had.
            ExhaustedError, StorageError: it can't be removed whole; it isn't served any more once
                its tombstone is written, and the same call goes on.
        """
        with during("shred", package=name, version=version):
            graves = self._works.shredder.bury(name, version)
            places = {(grave.name, grave.version) for grave in graves}
            self._gate.end({name}, NotFoundError("the package was shredded"))
            self._doors.check_permits()
            aborted = self._registry.revoke(
                lambda one: (one.scope.package, one.scope.version) in places
            )
            self._works.shredder.remove(graves)
            self._custody.forget(alias for grave in graves for alias in grave.aliases)
        _log.warning("shredded", package=name, versions=sorted(version for _, version in places))
        return Shredded(tuple(graves), aborted, tuple(self._doors.holders()))

    def revoked(self, alias: str) -> list[str]:
        """Return the versions of a key that are revoked."""
        return self._custody.revocations.of(alias)

    def lock(self) -> Locked:
        """Drop every key, end what is under way, and refuse what needs a key until `unlock`.

        Returns:
            When all that is done: who holds plaintext that can't be taken back.
        """
        with self._turn:
            self._gate.set(locked=True)
            self._doors.report(locked=True)
            holders = tuple(self._doors.holders())
            self._custody.lock()
            aborted = self._registry.revoke(lambda _transaction: True)
            self._doors.end_transfers()
        _log.warning("locked: every key dropped", aborted=aborted, holders=len(holders))
        return Locked(holders, aborted)

    def unlock(self) -> None:
        """Open every key provider again.

        Raises:
            KeyRefusedError, KeyUnavailableError: one doesn't open, or the store's own key can't be
                had; the daemon stays locked.
        """
        with self._turn, during("unlock"), _as_seen_from_afar():
            self._custody.unlock()
            try:
                self._store_key.open().close()
            except BaseException:
                self._custody.lock()
                raise
            self._gate.set(locked=False)
            self._doors.report(locked=False)
        _log.warning("unlocked")

    def _refuse_indispensable(self, alias: str, version: str) -> None:
        if not version:
            raise InvalidRequestError("name a version")
        if version == self._custody.current_version(alias):
            raise WrongStateError(
                f"version {version} wraps new keys: use `sealcar keys rotate` before"
            )
        identity = self._store.identity
        if (identity.kek_alias, identity.kek_version) == (alias, version):
            raise WrongStateError(
                f"the store's own key is under version {version}: use `sealcar keys rewrap` before"
            )
        known = self._custody.versions(alias)
        if known and version not in known:
            raise NotFoundError(f"key {alias} has no version {version[:20]!a}")
