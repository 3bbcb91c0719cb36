"""All key providers under their aliases, and the package keys that were unwrapped lately.

A cached key is honoured for its lifetime and not longer, whether or not its provider answers; a
provider's answer that the key-encryption key may not be used ends it at once. Callers get copies:
an entry of the cache may be wiped at any moment.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import KeyRefusedError, SealcarError
from sealcar_server.keys.keeper import Keeper
from sealcar_server.keys.metering import UNMETERED, Meter
from sealcar_server.keys.provider import KekStatus
from sealcar_server.sealing.encoding import enc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar_server.keys.provider import (
        KekDescription,
        KeyProvider,
        TinkCiphertext,
        WrappedKey,
    )
    from sealcar_server.sealing.secret import SecretBuffer


CHECK_INTERVAL: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Entry:
    key: SecretBuffer
    alias: str
    expires: float


class KeyRing(Closing):
    """Wraps and unwraps under an alias. Thread-safe.

    Args:
        providers: by alias. They belong to the ring from now on.
        lifetime: seconds that an unwrapped key is kept; 0: not at all.
        using: entered around each request to a provider, with its name, the alias and the wrapping
            version ("" while there is none yet); what it raises refuses the key.
        check_interval: seconds between two questions whether cached keys may still be used, by
            alias; `CHECK_INTERVAL` where an alias is missing.
        meter: told of the cache, and of providers that answer or don't.
    """

    def __init__(
        self,
        providers: Mapping[str, KeyProvider],
        *,
        lifetime: float,
        using: Callable[[str, str, str], AbstractContextManager[object]] = lambda *_: nullcontext(),
        check_interval: Mapping[str, float] | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._meter = meter
        self._using = using
        self._lifetime = lifetime
        self._entries: dict[bytes, _Entry] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._forgotten = dict.fromkeys(providers, 0)
        intervals = check_interval or {}
        self._keepers = {
            alias: Keeper(
                alias,
                provider,
                intervals.get(alias, CHECK_INTERVAL),
                partial(self._caches, alias),
                partial(self.forget, alias),
                partial(meter.answered, alias),
            )
            for alias, provider in providers.items()
        }
        self._sweeper = threading.Thread(target=self._sweep, name="key-cache", daemon=True)
        self._sweeper.start()

    def wrap(self, alias: str, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key for a context.

        Raises:
            KeyRefusedError: the configuration has no such alias, or the provider says no.
            KeyUnavailableError: the provider can't be reached.
        """
        keeper = self._keeper(alias)
        with self._using("wrap", alias, ""):
            return keeper.wrap(key, context)

    def unwrap(self, alias: str, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return a copy of the key; whoever asked closes it.

        Raises:
            KeyRefusedError: the configuration has no such alias: no provider is asked. Or it was
                wrapped for another context.
            KeyUnavailableError: the provider can't be reached.
        """
        keeper = self._keeper(alias)
        name = hashlib.sha256(enc(alias, wrapped.version, wrapped.blob, context)).digest()
        with self._changed:
            entry = self._entries.get(name)
            if entry and entry.expires > _now():
                self._meter.cached("hit")
                return entry.key.copy()
            forgotten = self._forgotten[alias]
        self._meter.cached("miss")
        with self._using("unwrap", alias, wrapped.version):
            key = keeper.unwrap(wrapped, context)
        if self._lifetime > 0:
            self._keep(name, _Entry(key.copy(), alias, _now() + self._lifetime), forgotten)
        return key

    def rewrap(self, alias: str, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Return the same key for the same context, under the version that wraps new keys.

        Raises:
            KeyRefusedError: the configuration has no such alias, or it was wrapped for another
                context.
            KeyUnavailableError: the provider can't be reached.
        """
        keeper = self._keeper(alias)
        with self._using("rewrap", alias, wrapped.version):
            return keeper.rewrap(wrapped, context)

    def rotate(self, alias: str) -> str:
        """Make a new version of a key-encryption key, which wraps from now on, and return it.

        Raises:
            WrongStateError: this kind of key gets its versions elsewhere.
            KeyRefusedError: the configuration has no such alias, or the provider says no.
            ConflictError, ConfigurationError, KeyUnavailableError, StorageError: it can't be made.
        """
        keeper = self._keeper(alias)
        with self._using("rotate", alias, ""):
            return keeper.rotate()

    def encrypt_for_tink(self, alias: str, text: bytes, associated_data: bytes) -> TinkCiphertext:
        """Have a keyset encrypted so that Tink opens it at the key's service.

        Raises:
            WrongStateError: Tink can't use this kind of key.
            KeyRefusedError: the configuration has no such alias, or the provider says no.
            KeyUnavailableError: the provider can't be reached.
        """
        keeper = self._keeper(alias)
        with self._using("encrypt-for-tink", alias, ""):
            return keeper.encrypt_for_tink(text, associated_data)

    def current_version(self, alias: str) -> str:
        """Return the version that wraps new keys.

        Raises:
            KeyRefusedError: the configuration has no such alias, or the provider says no.
            KeyUnavailableError: the provider has to be asked, and can't be reached.
        """
        return self._keeper(alias).current_version()

    def alias_of(self, kind: str, version: str) -> str:
        """Return the alias of a key of this kind whose version that is; "" if there is none."""
        found = [alias for alias, keeper in self._keepers.items() if keeper.kind == kind]
        return next((one for one in found if self.current_version(one) == version), "")

    def opens(self, alias: str) -> bool:
        """Tell whether what is wrapped under an alias can be unwrapped here; nobody is asked.

        Raises:
            KeyRefusedError: the configuration has no such alias.
        """
        return self._keeper(alias).opens

    def describe(self, alias: str) -> KekDescription:
        """Say what a key-encryption key is.

        Raises:
            KeyRefusedError: the configuration has no such alias, or the provider says no.
            KeyUnavailableError: the provider has to be asked, and can't be reached.
        """
        return self._keeper(alias).describe()

    def forget(self, alias: str) -> None:
        """Wipe every cached key of an alias, and don't keep what is being unwrapped now.

        Raises:
            KeyRefusedError: the configuration has no such alias.
        """
        self._keeper(alias)
        with self._changed:
            self._forgotten[alias] += 1
            names = [name for name, entry in self._entries.items() if entry.alias == alias]
            self._drop(names, "forgotten")

    @property
    def cached(self) -> int:
        """How many unwrapped keys are held."""
        return len(self._entries)

    def status(self) -> list[KekStatus]:
        """Ask every provider for its health; what is wrong is told whole, for operators."""
        return [self._status(alias, keeper) for alias, keeper in self._keepers.items()]

    def close(self) -> None:
        """Wipe every key and close the providers. Repeating it is fine."""
        with self._changed:
            self._closed = True
            self._drop(list(self._entries), "forgotten")
            self._changed.notify()
        self._sweeper.join()
        for keeper in self._keepers.values():
            keeper.close()

    def _keeper(self, alias: str) -> Keeper:
        try:
            return self._keepers[alias]
        except KeyError:
            raise KeyRefusedError(
                f"the configuration has no key-encryption key named {alias[:80]!a}"
            ) from None

    def _keep(self, name: bytes, entry: _Entry, forgotten: int) -> None:
        with self._changed:
            if self._closed or self._forgotten[entry.alias] != forgotten:
                entry.key.close()
                return
            self._wipe([name])
            self._entries[name] = entry
            self._changed.notify()

    def _sweep(self) -> None:
        with self._changed:
            while not self._closed:
                now = _now()
                over = [name for name, entry in self._entries.items() if entry.expires <= now]
                self._drop(over, "expired")
                # all lifetimes are equal, so the oldest entry expires first
                oldest = next(iter(self._entries.values()), None)
                self._changed.wait(oldest.expires - now if oldest else None)

    def _drop(self, names: list[bytes], result: str) -> None:
        self._meter.cached(result, len(names))
        self._wipe(names)

    def _wipe(self, names: list[bytes]) -> None:
        for name in names:
            if entry := self._entries.pop(name, None):
                entry.key.close()

    def _caches(self, alias: str) -> int:
        with self._changed:
            return sum(entry.alias == alias for entry in self._entries.values())

    def _status(self, alias: str, keeper: Keeper) -> KekStatus:
        problem = ""
        try:
            keeper.health()
        except SealcarError as error:
            problem = error.message
        return KekStatus(
            alias, keeper.kind, keeper.version, not problem, problem, self._caches(alias)
        )


def _now() -> float:
    # counts on while the machine is suspended
    return time.clock_gettime(time.CLOCK_BOOTTIME)
