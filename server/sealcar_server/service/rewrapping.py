"""Moves packages to the current version of their key-encryption key.

Each one gets a generation more, with the same payload files and the same record but for the
wrapped key; so whoever is killed has moved a package whole or not at all, and begins again with
those that are left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import (
    ConflictError,
    DamagedError,
    KeyRefusedError,
    NotFoundError,
    RequestError,
    SealcarError,
    StorageError,
)
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.service.composing import enclose
from sealcar_server.service.failing import during
from sealcar_server.service.linking import link_generation
from sealcar_server.service.superseded import remove_superseded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.service.composing import Composed
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.keeping import Keeping
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.remembering import Remembered
    from sealcar_server.service.store_key import StoreKey
    from sealcar_server.service.turns import Turns
    from sealcar_server.store.interface import Store

Progress = Callable[[int, int, str], None]
LISTED: Final = 1000
# of one package: the others are moved all the same
_OF_ONE: Final = (DamagedError, KeyRefusedError, RequestError, StorageError)
_log: Final = structlog.get_logger("sealcar.keys")


@dataclass(frozen=True)
class Wanted:
    """What is to be moved.

    Attributes:
        from_version: only what is under this version; empty: all that isn't under the current one.
        packages: (name, version) each, an empty version for all of a name; empty: all packages.
    """

    from_version: str = ""
    packages: tuple[tuple[str, str], ...] = ()


@dataclass
class Rewrapped:
    """What came of it.

    Attributes:
        packages: how many were moved.
        skipped: how many were left as they were.
        removed: older generations that differed in nothing but the wrapped key.
        store_key: whether the store's own key was moved.
        failures: why some couldn't be moved; the first thousand.
        failed: how many couldn't.
    """

    packages: int = 0
    skipped: int = 0
    removed: int = 0
    store_key: bool = False
    failures: list[SealcarError] = field(default_factory=list)
    failed: int = 0

    def failing(self, error: SealcarError) -> None:
        """Count a failure."""
        self.failed += 1
        if len(self.failures) < LISTED:
            self.failures.append(error)


class Rewrapper:
    """One run at a time.

    Args:
        store: where packages lie.
        keyring: rewraps.
        opener: opens them.
        store_key: is moved too.
        turns: shared with whoever publishes.
        remembered: forgets what is removed.
        keeping: tells which older generations stay.
    """

    def __init__(  # noqa: PLR0913  (what it works with)
        self,
        store: Store,
        keyring: Custody,
        opener: Opener,
        *,
        store_key: StoreKey,
        turns: Turns,
        remembered: Remembered,
        keeping: Keeping,
    ) -> None:
        self._store, self._keyring, self._opener = store, keyring, opener
        self._store_key, self._turns = store_key, turns
        self._remembered, self._keeping = remembered, keeping
        self._running = threading.Lock()

    def run(self, wanted: Wanted, progress: Progress) -> Rewrapped:
        """Move what is wanted, and the store's own key unless single packages are.

        Args:
            wanted: which.
            progress: is told packages looked at, in all, and at which one it is; what it raises
                ends the work after the package before.

        Raises:
            ConflictError: another run is under way.
            NotFoundError: a package that was asked for isn't there.
            KeyRefusedError, KeyUnavailableError: the store's own key can't be had, or the key
                provider can't be reached.
            ExhaustedError: the disk is full.
            StorageError: the store can't be listed.
        """
        if not self._running.acquire(blocking=False):
            raise ConflictError("packages are being moved already: wait until that has ended")
        try:
            with during("rewrap"):
                return self._run(wanted, progress)
        finally:
            self._running.release()

    def _run(self, wanted: Wanted, progress: Progress) -> Rewrapped:
        done = Rewrapped()
        places = list(self._places(wanted))
        if not wanted.packages:
            done.store_key = self._move_store_key(wanted)
        for at, (name, version) in enumerate(places):
            progress(at, len(places), f"{name}@{version}")
            try:
                with during("rewrap", package=name, version=version):
                    self._one((name, version), wanted, done, partial(progress, at, len(places)))
            except _OF_ONE as error:
                _log.warning("a package can't be moved", error=str(error))
                done.failing(error)
        _log.info(
            "packages moved to the current version of their key",
            moved=done.packages,
            skipped=done.skipped,
            failed=done.failed,
            removed=done.removed,
            store_key=done.store_key,
        )
        return done

    def _places(self, wanted: Wanted) -> Iterator[tuple[str, str]]:
        names = dict.fromkeys(name for name, _ in wanted.packages) or self._store.names()
        for name in names:
            chosen = {version for asked, version in wanted.packages if asked == name}
            found = self._store.versions(name)
            lacking = chosen - {"", *found}
            if lacking or (chosen and not found):
                version = min(lacking, default="")
                raise NotFoundError("there is no such package").at(package=name, version=version)
            yield from (
                (name, version) for version in found if not chosen or chosen & {"", version}
            )

    def _move_store_key(self, wanted: Wanted) -> bool:
        identity = self._store.identity
        if not self._is_due(identity.kek_alias, identity.kek_version, wanted):
            return False
        self._store_key.move()
        return True

    def _one(
        self, place: tuple[str, str], wanted: Wanted, done: Rewrapped, step: Callable[[str], None]
    ) -> None:
        name, version = place
        with self._turns.of(name, version):
            newest = self._opener.open(name, version)
            sealed = newest.record
            if self._is_due(sealed.kek_alias, sealed.kek_version, wanted):
                self._publish(newest, lambda: step(f"{name}@{version}"))
                done.packages += 1
            else:
                done.skipped += 1
            done.removed += remove_superseded(self._store, self._remembered, self._keeping, place)

    def _is_due(self, alias: str, version: str, wanted: Wanted) -> bool:
        if version == self._keyring.current_version(alias):
            return False
        return wanted.from_version in ("", version)

    def _publish(self, newest: OpenedPackage, step: Callable[[], None]) -> None:
        place = newest.place
        with self._store.stage(place.name, place.version) as staging:
            link_generation(newest, staging, "rewrap", step=step)
            composed = self._composed(newest)
            published = staging.publish(composed.manifest, place.number + 1)
        self._opener.saw(published, composed.digest, composed.key)

    def _composed(self, newest: OpenedPackage) -> Composed:
        sealed = newest.record
        context = package_context(sealed.package_id)
        old = WrappedKey(sealed.kek_version, sealed.wrapped)
        new = self._keyring.rewrap(sealed.kek_alias, old, context)
        root = self._keyring.unwrap(sealed.kek_alias, new, context)
        with PackageKeys(root, sealed.package_id) as keys:
            # a provider that returned another key would have made the package unreadable
            keys.verify_tag(*record.open_envelope(newest.manifest))
            moved = replace(
                sealed,
                generation=sealed.generation + 1,
                previous=newest.digest,
                kek_version=new.version,
                wrapped=new.blob,
            )
            return enclose(newest.manifest, moved, keys)
