"""Gets variants ready for whoever opens them next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.errors import InvalidRequestError, UnavailableError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.failing import during, place_of
from sealcar_server.service.metering import UNMETERED, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sealcar_server.access.principal import Principal
    from sealcar_server.service.metering import Meter
    from sealcar_server.service.payload_source import PayloadSource
    from sealcar_server.service.payloads import Payloads
    from sealcar_server.service.values import PayloadValue, ScopeKey

_WEIGHTS: Final = "initializers"
# a model with its weights inside, which clients map from this size on
_WHOLE: Final = "model"
_WHOLE_NAME: Final = ".ort"
_WHOLE_LEAST: Final = 4 << 20


@dataclass(frozen=True)
class Prefetched:
    """What was got ready.

    Attributes:
        scope: resolved.
        payloads, size: how many, and their plaintext bytes.
        shared: how many of those bytes lie in segments.
    """

    scope: ScopeKey
    payloads: int
    size: int
    shared: int


class Progress(Protocol):
    """Is told now and then how far it is; what it raises ends the work."""

    def __call__(self, done: int, total: int, payload: str, /) -> None:
        """Take bytes done, bytes in all, and the payload."""


class Shelf(Protocol):
    """Where segments are."""

    def fill_ahead(
        self, principal: Principal, source: PayloadSource, progress: Callable[[int], None], /
    ) -> None:
        """Have a payload in a segment when this returns; closes the source."""


class _NoShelf:
    def fill_ahead(
        self, principal: Principal, source: PayloadSource, progress: Callable[[int], None], /
    ) -> None:
        """There are no segments."""
        del principal, progress
        source.close()
        raise UnavailableError("no segments are served")


class Prefetcher:
    """Safe to share between threads.

    Args:
        payloads: opens them.
        meter: is told what was got ready.
    """

    def __init__(self, payloads: Payloads, meter: Meter = UNMETERED) -> None:
        self.payloads: Final = payloads
        self._meter = meter
        self._shelf: Shelf = _NoShelf()

    def serve_behind(self, shelf: Shelf) -> None:
        """Let segments be filled there."""
        self._shelf = shelf

    def prefetch(
        self,
        principal: Principal,
        scope: ScopeKey,
        progress: Progress,
        *,
        shared: bool,
        payloads: Payloads | None = None,
    ) -> Prefetched:
        """Get one variant ready.

        Args:
            principal: who asks.
            scope: of the variant.
            progress: is told how far it is.
            shared: have initializers decrypted, and models in ONNX Runtime's own format that have
                them inside, for all who load them so.
            payloads: judges by other rules than the policy.

        Raises:
            NotFoundError, DeniedError: as `Payloads.open`.
            ExhaustedError: there is no memory for segments.
            DamagedError, KeyRefusedError, KeyUnavailableError, StorageError: it can't be read.
        """
        if shared and principal.spiffe:
            raise InvalidRequestError("nobody on another machine reads segments: leave out shared")
        with timed(self._meter, "prefetch"):
            by = payloads or self.payloads
            opened = by.open(principal, scope)
            own = _Variant(by, principal, opened.scope, progress)
            return own.ready(opened.variant.payloads, self._shelf if shared else None, self._meter)


class _Variant:
    """One variant on its way."""

    def __init__(
        self, payloads: Payloads, principal: Principal, scope: ScopeKey, progress: Progress
    ) -> None:
        self._payloads, self._principal, self._scope = payloads, principal, scope
        self._progress = progress
        self._done = self._total = 0

    def ready(
        self, payloads: Sequence[PayloadValue], shelf: Shelf | None, meter: Meter
    ) -> Prefetched:
        """Get all payloads ready."""
        self._total = sum(payload.size for payload in payloads)
        in_segments = 0
        scratch = Scratch()
        try:
            for payload in payloads:
                source = self._payloads.read(self._principal, self._scope, payload.name, scratch)
                with during("prefetch", payload=payload.name, **place_of(self._scope)):
                    into = shelf if _is_shared(payload) else None
                    self._one(source, into, scratch)
                self._done += payload.size
                in_segments += payload.size if into else 0
                meter.prefetched("segment" if into else "cache", payload.size)
                self._progress(self._done, self._total, payload.name)
        finally:
            scratch.wipe()
        return Prefetched(self._scope, len(payloads), self._done, in_segments)

    def _one(self, source: PayloadSource, shelf: Shelf | None, scratch: Scratch) -> None:
        name = source.payload.name

        def progress(done: int) -> None:
            self._progress(self._done + done, self._total, name)

        if shelf is not None:
            shelf.fill_ahead(self._principal, source, progress)
            return
        with source:
            for done in _cached(source, scratch):
                progress(done)


def _is_shared(payload: PayloadValue) -> bool:
    """Tell whether workers that share weights map a payload."""
    if payload.kind == _WHOLE:
        return payload.name.endswith(_WHOLE_NAME) and payload.size >= _WHOLE_LEAST
    return payload.kind == _WEIGHTS and payload.size > 0


def _cached(source: PayloadSource, scratch: Scratch) -> Iterator[int]:
    for index in range(source.reader.layout.count):
        source.permit.check()
        source.permit.renew()
        span = source.reader.read_ahead(index, scratch)
        yield span.plain_at + span.plain_size
