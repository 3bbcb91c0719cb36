"""The store's own key: made when the store is founded, and asked for by whoever needs it."""

from __future__ import annotations

import hmac
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConflictError, NotAuthenticError
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.sealing.derivation import ID, KEY, PackageKeys
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.store.identity import StoreIdentity
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.keys.ring import KeyRing
    from sealcar_server.service.custody import Custody
    from sealcar_server.store.interface import Store

FORMAT: Final = "1"


class StoreKey:
    """Leads from a store's identity to its key."""

    def __init__(self, store: Store, keyring: Custody) -> None:
        self._store, self._keyring = store, keyring

    def move(self) -> None:
        """Put the key under the current version of its key-encryption key.

        Raises:
            NotAuthenticError: the key provider returned another key: nothing was changed.
            KeyRefusedError, KeyUnavailableError: the key can't be had, or not be wrapped.
            ConflictError: another daemon moved it meanwhile.
            ExhaustedError, StorageError: the store can't be written.
        """
        before = self._store.identity
        context = _context(before.store_id)
        old = WrappedKey(before.kek_version, before.wrapped)
        new = self._keyring.rewrap(before.kek_alias, old, context)
        with (
            self._keyring.unwrap(before.kek_alias, old, context) as was,
            self._keyring.unwrap(before.kek_alias, new, context) as became,
        ):
            if not hmac.compare_digest(was.view, became.view):
                raise NotAuthenticError("the key provider rewrapped the store's key to another one")
        if self._store.identity != before:
            # asking the provider took long; what has replaced it may be under a later version
            raise ConflictError("another daemon moved the store's key meanwhile: try again")
        moved = replace(before, kek_version=new.version, wrapped=new.blob)
        self._store.replace_identity(moved)

    def open(self) -> PackageKeys:
        """Return the store's keys, which the caller closes.

        Raises:
            KeyRefusedError: the configuration has no such key, or it isn't this store's.
            KeyUnavailableError: the key provider can't be reached.
        """
        identity = self._store.identity
        wrapped = WrappedKey(identity.kek_version, identity.wrapped)
        root = self._keyring.unwrap(identity.kek_alias, wrapped, _context(identity.store_id))
        return PackageKeys(root, identity.store_id)


def new_identity(keyring: KeyRing | Custody, kek_alias: str) -> StoreIdentity:
    """Return a new store's identity, its key wrapped by the key-encryption key of this alias.

    Raises:
        KeyRefusedError: the configuration has no such key.
        KeyUnavailableError: the key provider can't be reached.
    """
    store_id = os.urandom(ID)
    with SecretBuffer.random(KEY) as key:
        wrapped = keyring.wrap(kek_alias, key, _context(store_id))
    return StoreIdentity(store_id, kek_alias, wrapped.version, wrapped.blob)


def check_key(identity: StoreIdentity, keyring: KeyRing | Custody) -> None:
    """Make sure that a store's key can be unwrapped.

    Raises:
        KeyRefusedError: the configuration has no such key, or it isn't this store's.
        KeyUnavailableError: the key provider can't be reached.
    """
    wrapped = WrappedKey(identity.kek_version, identity.wrapped)
    keyring.unwrap(identity.kek_alias, wrapped, _context(identity.store_id)).close()


def create_store(path: Path, keyring: KeyRing | Custody, kek_alias: str) -> LocalStore:
    """Found a store in a directory; raises as `new_identity`.

    Raises:
        AlreadyExistsError: there is a store already.
        ExhaustedError, StorageError: the directory can't be written.
    """
    return LocalStore.create(path, new_identity(keyring, kek_alias))


def _context(store_id: bytes) -> bytes:
    return enc("sealcar v1 store key wrap", FORMAT, store_id)
