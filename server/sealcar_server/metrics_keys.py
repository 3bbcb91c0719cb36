"""Figures of keys: the cache of unwrapped ones, and those who unwrap them."""

from __future__ import annotations

import functools
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from sealcar.errors import KeyRefusedError, KeyUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import CollectorRegistry

_SECONDS: Final = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)
_OPERATIONS: Final = ("wrap", "unwrap")  # those that every daemon needs
OUTCOMES: Final = ("done", "refused", "unavailable", "failed")


class KeyMetrics:
    """Labels are aliases of the settings: never a package, a caller or a key's own name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cache = Counter(
            "sealcar_key_cache",
            "Package keys looked up in the cache (hit, miss), and gone from it (expired, "
            "forgotten: refused by the provider or an operator, or dropped by a lock).",
            ["result"],
            registry=registry,
        )
        self._held = Gauge(
            "sealcar_key_cache_keys", "Unwrapped package keys that are held now.", registry=registry
        )
        self._up = Gauge(
            "sealcar_key_provider_up",
            "1 if the key's provider answered when it was last asked, be it with a refusal.",
            ["alias"],
            registry=registry,
        )
        self._answer = Gauge(
            "sealcar_key_provider_last_answer_timestamp_seconds",
            "When the key's provider last answered, in seconds since 1970; nobody asks it while "
            "no key is needed or cached.",
            ["alias"],
            registry=registry,
        )
        self._calls = Counter(
            "sealcar_key_provider_calls",
            "Requests to a key's provider that have ended, by what came of them: done, refused, "
            "unavailable, failed.",
            ["alias", "operation", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "sealcar_key_provider_call_seconds",
            "Time that requests to a key's provider took.",
            ["alias"],
            buckets=_SECONDS,
            registry=registry,
        )
        # what the library looks up by its labels at every call
        self._cached_as = functools.cache(self._cache.labels)
        for result in ("hit", "miss", "expired", "forgotten"):
            self._cached_as(result)

    def expect(self, aliases: Iterable[str]) -> None:
        """Have a series for each from the start, so that the first failure is a rise."""
        for alias in aliases:
            for operation in _OPERATIONS:
                for outcome in OUTCOMES:
                    self._calls.labels(alias, operation, outcome)

    def follow(self, held: Callable[[], int]) -> None:
        """Ask this for the size of the cache whenever somebody looks."""
        self._held.set_function(held)

    def cached(self, result: str, count: int = 1) -> None:
        """Count what became of keys and the cache."""
        self._cached_as(result).inc(count)

    def answered(self, alias: str, up: bool) -> None:  # noqa: FBT001  (a hook's argument)
        """Record whether a provider answered just now."""
        self._up.labels(alias).set(up)
        if up:
            self._answer.labels(alias).set_to_current_time()

    @contextmanager
    def asking(self, operation: str, alias: str) -> Iterator[None]:
        """Measure one request to a provider."""
        begun = time.monotonic()
        outcome = "failed"
        try:
            yield
            outcome = "done"
        except KeyRefusedError:
            outcome = "refused"
            raise
        except KeyUnavailableError:
            outcome = "unavailable"
            raise
        finally:
            self._calls.labels(alias, operation, outcome).inc()
            self._seconds.labels(alias).observe(time.monotonic() - begun)
