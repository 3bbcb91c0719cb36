"""`current`: which version an empty version means, authenticated under the store's own key."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import (
    ConflictError,
    DamagedError,
    NotAuthenticError,
    NotFoundError,
    RolledBackError,
    StorageError,
)
from sealcar_server.access.policy import unknown_package
from sealcar_server.sealing.fields import Fields
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import tagged
from sealcar_server.service.by_content import ByContent
from sealcar_server.service.departures import Departures
from sealcar_server.service.tombstones import Tombstones
from sealcar_server.service.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.service.rollback import Seen
    from sealcar_server.service.store_key import StoreKey
    from sealcar_server.store.interface import Pending, Store

_ATTEMPTS: Final = 16


@dataclass(frozen=True)
class Pointer:
    """What `current` says.

    Attributes:
        name: of the package.
        version: the one that is current.
        generation: the newest of that version when it became current; an older one is a rollback.
        sequence: grows with every change, so that an old pointer isn't taken for the newest.
    """

    name: str
    version: str
    generation: int
    sequence: int

    def serialise(self) -> bytes:
        """Return the bytes that are tagged."""
        return json.dumps(vars(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Pointer:
        """Read the tagged bytes; NotAuthenticError if they are no pointer."""
        fields = Fields(strict_json(data, "current", error=NotAuthenticError), what="current")
        made = cls(
            fields.text("name", names.store_name),
            fields.text("version", names.store_name),
            fields.integer("generation", 1),
            fields.integer("sequence", 1),
        )
        fields.end()
        return made


class Pointers:
    """Reads and writes pointers; safe to share between threads.

    Attributes:
        tombstones: in place of versions that can't be pointed at any more.
        departures: tell of versions that other daemons removed.
    """

    def __init__(self, store: Store, key: StoreKey, seen: Seen) -> None:
        self.tombstones: Final = Tombstones(store, key)
        self.departures: Final = Departures(store, key, seen)
        self._store, self._key, self._seen = store, key, seen
        self._turns = Turns()
        self._known: dict[str, tuple[bytes, Pointer]] = {}
        self._claims = ByContent(_claimed)

    def claimed(self, name: str) -> str:
        """Return the current version as the pointer claims, unauthenticated; "" if unknown."""
        try:
            data = self._store.read_current(name)
            if not data:
                return self._only(name)
            return self._claims.of(data)
        except (DamagedError, NotFoundError, StorageError):
            return ""

    def current(self, name: str) -> Pointer:
        """Return the authentic pointer.

        Raises:
            NotFoundError: there is none, and not exactly one version that could be meant.
            NotAuthenticError: the holder of the store's key didn't write it.
            RolledBackError: this daemon has seen a newer one.
        """
        # in this order: what others write in between is newer, and no rollback
        seen = self._seen.pointer(name)
        data = self._store.read_current(name)
        if data is None and seen == 0:
            # the crash of an import may leave its version without a pointer
            return Pointer(name, self._only(name), 1, 0)
        if data is None:
            raise RolledBackError("the pointer to the current version is gone: name a version")
        pointer = self._authentic(name, data)
        if pointer.sequence < seen:
            raise RolledBackError(
                f"the pointer to the current version is number {pointer.sequence}; "
                f"number {seen} was seen before"
            )
        self._seen.saw_pointer(name, pointer.sequence)
        return pointer

    def refuse_forged(self, name: str) -> None:
        """Make sure that `moving` can replace the pointer; raises as `current` does."""
        if self._store.read_current(name) is not None:
            self.current(name)

    @contextmanager
    def staying(self, name: str) -> Iterator[str]:
        """Give the current version, and let nobody move the pointer meanwhile; "" if none is.

        Raises:
            NotAuthenticError, RolledBackError: nobody can tell.
            KeyRefusedError, KeyUnavailableError: the store's key can't be had.
        """
        with self._turns.of(name):
            try:
                version = self.current(name).version
            except NotFoundError:
                version = ""
            yield version

    @contextmanager
    def moving(self, name: str, version: str, generation: int) -> Iterator[str]:
        """Make a version the current one, durably, once what happens inside has succeeded.

        Whatever could fail for want of a key or of room is done before. It gives the version that
        the pointer names until then, or "".

        Raises:
            NotAuthenticError: the pointer that would be replaced isn't authentic.
            KeyRefusedError, KeyUnavailableError, ExhaustedError, StorageError: the old one stands.
            ConflictError: other daemons moved it all the time.
        """
        with self._turns.of(name):
            staged, sequence, before = self._staged(name, version, generation)
            with staged:
                yield before
                try:
                    staged.publish()
                except ConflictError:
                    sequence = self._move_on(name, version, generation)
            self._seen.saw_pointer(name, sequence)

    def _move_on(self, name: str, version: str, generation: int) -> int:
        """Move the pointer from where another daemon moved it meanwhile; return its sequence."""
        for _ in range(_ATTEMPTS):
            staged, sequence, _ = self._staged(name, version, generation)
            with staged:
                try:
                    staged.publish()
                except ConflictError:
                    continue
            return sequence
        raise ConflictError(
            f"{version} is there, and other daemons move the pointer to the current version all the"
            f" time: make it current with `sealcar use {name}@{version}`"
        )

    def _staged(self, name: str, version: str, generation: int) -> tuple[Pending, int, str]:
        """Return what is to replace the pointer, its sequence, and what it names so far."""
        data = self._store.read_current(name)
        before = self._authentic(name, data) if data else None
        last = before.sequence if before else 0
        sequence = max(last, self._seen.pointer(name)) + 1
        pointer = Pointer(name, version, generation, sequence).serialise()
        with self._key.open() as keys:
            written = tagged.tagged(pointer, keys)
        staged = self._store.stage_current(name, written)
        return staged, sequence, before.version if before else ""

    def _authentic(self, name: str, data: bytes) -> Pointer:
        known = self._known.get(name)
        if known is not None and known[0] == data:
            return known[1]
        text, tag = tagged.parsed(data, "current")
        with self._key.open() as keys:
            _verify(keys, text, tag)
        pointer = Pointer.parse(text)
        if pointer.name != name:
            raise NotAuthenticError(f"the pointer to the current version is {pointer.name}'s")
        self._known[name] = (data, pointer)
        return pointer

    def _only(self, name: str) -> str:
        versions = self._store.versions(name)
        if not versions:
            raise unknown_package(name)
        if len(versions) != 1:
            raise NotFoundError("the package has no current version: name one")
        return versions[0]


def _claimed(data: bytes) -> str:
    """Return the version that a pointer names, whoever wrote it."""
    text, _ = tagged.parsed(data, "current")
    return Pointer.parse(text).version


def _verify(keys: PackageKeys, text: bytes, tag: bytes) -> None:
    try:
        keys.verify_tag(text, tag)
    except NotAuthenticError:
        raise NotAuthenticError(
            "the pointer to the current version isn't authentic under the store's key"
        ) from None
