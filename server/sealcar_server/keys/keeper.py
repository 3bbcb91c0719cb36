"""One provider as the ring uses it: not asked in vain, watched while its keys are cached."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from sealcar.errors import KeyRefusedError, SealcarError, WrongStateError
from sealcar_server.keys.circuit import Circuit
from sealcar_server.keys.provider import RecipientsProvider, RotatingProvider, TinkProvider
from sealcar_server.keys.telling import for_clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.keys.provider import (
        KekDescription,
        KeyProvider,
        TinkCiphertext,
        WrappedKey,
    )
    from sealcar_server.sealing.secret import SecretBuffer

T = TypeVar("T")
_log: Final = structlog.get_logger("sealcar.keys")


class Keeper:
    """A provider behind a circuit of its own.

    While unwrapped keys are cached, a thread asks the provider for its health at an interval, and
    at once after a refusal. An answer that the key-encryption key may not be used ends them all.

    What clients ask for fails without the places of the daemon's files (see `telling`); the log
    has the whole reason. `health` and `rotate` are for operators, who are told all of it.

    Args:
        alias: of the key-encryption key.
        provider: belongs to the keeper from now on.
        interval: seconds between two looks.
        cached: tells how many keys there are to lose.
        on_refused: is called when they are lost.
        told: whether the provider answered, whenever it was asked.

    Attributes:
        kind: of the provider.
        version: that wraps new keys, as seen last; empty if it never was.
    """

    def __init__(
        self,
        alias: str,
        provider: KeyProvider,
        interval: float,
        cached: Callable[[], int],
        on_refused: Callable[[], None],
        told: Callable[[bool], None] = lambda _up: None,
    ) -> None:
        self.kind, self.version = provider.kind, ""
        self._alias, self._provider, self._interval = alias, provider, interval
        self._cached, self._on_refused = cached, on_refused
        self._circuit = Circuit(told)
        self._look = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="key-watch", daemon=True)
        self._thread.start()

    @property
    def opens(self) -> bool:
        """Whether the provider unwraps what it wraps."""
        provider = self._provider
        return not isinstance(provider, RecipientsProvider) or provider.opens

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        """Wrap a key; raises as the provider does."""
        wrapped = self._ask(lambda: self._provider.wrap(key, context))
        self.version = wrapped.version
        return wrapped

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        """Unwrap a key; raises as the provider does."""
        try:
            return self._ask(lambda: self._provider.unwrap(wrapped, context))
        except KeyRefusedError:
            self._look.set()  # it may mean this one key, or all
            raise

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        """Rewrap a key; raises as the provider does."""
        return self._ask(lambda: self._provider.rewrap(wrapped, context))

    def rotate(self) -> str:
        """Make a new version; raises as the provider does, WrongStateError if it makes none."""
        provider = self._provider
        if not isinstance(provider, RotatingProvider):
            raise WrongStateError(
                f"the daemon makes no versions of {provider.kind} keys: rotate the key at its "
                "service, then use `sealcar keys rewrap`"
            )
        self.version = self._circuit.call(provider.rotate)
        return self.version

    def encrypt_for_tink(self, text: bytes, associated_data: bytes) -> TinkCiphertext:
        """Encrypt for Tink; raises as the provider does, WrongStateError if Tink can't use it."""
        provider = self._provider
        if not isinstance(provider, TinkProvider):
            raise WrongStateError(
                f"Tink can't use {provider.kind} keys: name one in AWS KMS, or take the keyset in "
                "the clear"
            )
        return self._ask(lambda: provider.encrypt_for_tink(text, associated_data))

    def current_version(self) -> str:
        """Return the version that wraps; raises as the provider does."""
        self.version = self._ask(self._provider.current_version)
        return self.version

    def describe(self) -> KekDescription:
        """Describe the key; raises as the provider does."""
        return self._ask(self._provider.describe)

    def health(self) -> None:
        """Ask now, whatever was answered before.

        Raises:
            KeyRefusedError: the key-encryption key may not be used; cached keys have ended.
            KeyUnavailableError: there is no answer.
        """
        try:
            self._circuit.call(self._provider.health, now=True)
            self.version = self._provider.current_version()
        except KeyRefusedError:
            self._on_refused()
            raise

    def close(self) -> None:
        """Stop looking, and close the provider."""
        self._closed = True
        self._look.set()
        self._thread.join()
        self._provider.close()

    def _ask(self, act: Callable[[], T]) -> T:
        try:
            return self._circuit.call(lambda: self._noted(act))
        except SealcarError as error:
            raise for_clients(error, self._alias) from error

    def _noted(self, act: Callable[[], T]) -> T:
        # here and not around the circuit: what that repeats would fill the log
        try:
            return act()
        except SealcarError as error:
            _log.warning(
                "a key provider didn't do it",
                alias=self._alias,
                kind=self.kind,
                error=type(error).__name__,
                reason=error.message,
            )
            raise

    def _watch(self) -> None:
        while not self._closed:
            self._look.wait(self._interval)
            self._look.clear()
            if self._closed or not self._cached():
                continue
            try:
                self.health()
            except SealcarError:
                continue  # cached keys have ended, or are honoured until their lifetime does
