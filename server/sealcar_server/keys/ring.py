"""All key providers under their aliases, and the package keys that were unwrapped lately.

Callers get copies: an entry of the cache may be wiped at any moment.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import KeyRefusedError, SealcarError
from sealcar_server.sealing.encoding import enc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from sealcar_server.keys.provider import KeyProvider, WrappedKey
    from sealcar_server.sealing.secret import SecretBuffer


@dataclass(frozen=True, slots=True)
class KekStatus:
    """What an operator may know of one key-encryption key.

    Attributes:
        alias: in the configuration.
        provider: its kind.
        version: that wraps new keys.
        available: it answered just now.
        problem: why not; empty when available.
        cached: unwrapped keys in memory.
    """

    alias: str
    provider: str
    version: str
    available: bool
    problem: str
    cached: int


@dataclass(frozen=True, slots=True)
class _Entry:
    key: SecretBuffer
    alias: str
    expires: float


class KeyRing:
    """Wraps and unwraps under an alias. Thread-safe.

    Args:
        providers: by alias. They belong to the ring from now on.
        lifetime: seconds that an unwrapped key is kept; 0: not at all.
        using: entered around each request to a provider, with its name, the alias and the wrapping
            version ("" while there is none yet); what it raises refuses the key.
    """

    def __init__(
        self,
        providers: Mapping[str, KeyProvider],
        *,
        lifetime: float,
        using: Callable[[str, str, str], AbstractContextManager[object]] = lambda *_: nullcontext(),
    ) -> None:
        self._providers = dict(providers)
        self._using = using
        self._lifetime = lifetime
        self._entries: dict[bytes, _Entry] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._sweeper = threading.Thread(target=self._sweep, name="key-cache", daemon=True)
        self._sweeper.start()

    def wrap(self, alias: str, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key for a context.

        Raises:
            KeyRefusedError: the configuration has no such alias, or the provider says no.
            KeyUnavailableError: the provider can't be reached.
        """
        provider = self._provider(alias)
        with self._using("wrap", alias, ""):
            return provider.wrap(key, context)

    def unwrap(self, alias: str, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Return a copy of the key; whoever asked closes it.

        Raises:
            KeyRefusedError: the configuration has no such alias: no provider is asked. Or it was
                wrapped for another context.
            KeyUnavailableError: the provider can't be reached.
        """
        provider = self._provider(alias)
        name = hashlib.sha256(enc(alias, wrapped.version, wrapped.blob, context)).digest()
        with self._changed:
            entry = self._entries.get(name)
            if entry and entry.expires > time.monotonic():
                return entry.key.copy()
        with self._using("unwrap", alias, wrapped.version):
            key = provider.unwrap(wrapped, context)
        if self._lifetime > 0:
            self._keep(name, _Entry(key.copy(), alias, time.monotonic() + self._lifetime))
        return key

    def current_version(self, alias: str) -> str:
        """Return the version that wraps new keys.

        Raises:
            KeyRefusedError: the configuration has no such alias.
        """
        return self._provider(alias).current_version()

    def status(self) -> list[KekStatus]:
        """Ask every provider for its health."""
        return [self._status(alias, provider) for alias, provider in self._providers.items()]

    def close(self) -> None:
        """Wipe every key and close the providers. Repeating it is fine."""
        with self._changed:
            self._closed = True
            self._wipe(list(self._entries))
            self._changed.notify()
        self._sweeper.join()
        for provider in self._providers.values():
            provider.close()

    def _provider(self, alias: str) -> KeyProvider:
        try:
            return self._providers[alias]
        except KeyError:
            raise KeyRefusedError(
                f"the configuration has no key-encryption key named {alias[:80]!a}"
            ) from None

    def _keep(self, name: bytes, entry: _Entry) -> None:
        with self._changed:
            if self._closed:
                entry.key.close()
                return
            self._wipe([name])
            self._entries[name] = entry
            self._changed.notify()

    def _sweep(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                self._wipe([name for name, entry in self._entries.items() if entry.expires <= now])
                # all lifetimes are equal, so the oldest entry expires first
                oldest = next(iter(self._entries.values()), None)
                self._changed.wait(oldest.expires - now if oldest else None)

    def _wipe(self, names: list[bytes]) -> None:
        for name in names:
            if entry := self._entries.pop(name, None):
                entry.key.close()

    def _status(self, alias: str, provider: KeyProvider) -> KekStatus:
        problem = ""
        try:
            provider.health()
        except SealcarError as error:
            problem = error.message
        with self._changed:
            cached = sum(entry.alias == alias for entry in self._entries.values())
        return KekStatus(
            alias, provider.kind, provider.current_version(), not problem, problem, cached
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
