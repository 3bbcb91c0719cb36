"""Figures of what moves and waits now: memory, queues, transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import Gauge

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry


class Moving(Protocol):
    """The data socket, as far as it is watched."""

    def rings(self) -> int:
        """Return how many rings are shared with clients now."""

    def transfers(self) -> int:
        """Return how many transfers are under way."""

    def connections(self) -> int:
        """Return how many connections there are."""


class Bounded(Protocol):
    """The budget, as far as it is watched."""

    @property
    def used(self) -> int:
        """Bytes that are leased now."""

    @property
    def waiting(self) -> int:
        """How many wait for memory."""


class Working(Protocol):
    """The workers, as far as they are watched."""

    @property
    def workers(self) -> int:
        """How many there are."""

    @property
    def queued(self) -> int:
        """How many pieces wait for one."""


class MemoryMetrics:
    """What rings, segments and workers have to do. Most is asked whenever somebody looks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"sealcar_{name}", text, labels, registry=registry)

        self.sessions: Final = gauge("sessions", "Client processes that are connected.")
        self._connections = gauge("connections", "Connections of clients to data sockets.")
        self._transfers = gauge("transfers", "Payloads that are on their way by a data socket.")
        self._rings = gauge("rings", "Rings that are shared with clients.")
        self._memory = gauge("memory_bytes", "Memory of all rings and segments together.")
        self.limit: Final = gauge(
            "memory_limit_bytes", "The most that all rings and segments may take."
        )
        self._waiting = gauge(
            "memory_waiting",
            "Transfers that wait for memory; how long they waited is the phase memory.",
        )
        self._workers = gauge("workers", "Threads that seal and open.")
        self._queued = gauge("work_queued", "Pieces of payloads that wait for a worker.")
        self._segments = gauge(
            "segments", "Payloads that lie in memory whole, for all their readers."
        )
        self._segment_bytes = gauge(
            "segment_bytes",
            "Memory of segments: locked, or unlocked, which may be swapped.",
            "pages",
        )

    def shared(self, count: int, locked: int, unlocked: int) -> None:
        """Record how many segments there are, and their bytes that are locked or not."""
        self._segments.set(count)
        self._segment_bytes.labels("locked").set(locked)
        self._segment_bytes.labels("unlocked").set(unlocked)

    def follow(self, moving: Moving, budget: Bounded, working: Working) -> None:
        """Ask these whenever somebody looks."""
        asked: dict[Gauge, Callable[[], float]] = {
            self._rings: moving.rings,
            self._transfers: moving.transfers,
            self._connections: moving.connections,
            self._memory: lambda: budget.used,
            self._waiting: lambda: budget.waiting,
            self._queued: lambda: working.queued,
        }
        for gauge, ask in asked.items():
            gauge.set_function(ask)
        self._workers.set(working.workers)
