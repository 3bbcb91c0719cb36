"""What operators see at /metrics. No label ever holds a package's or a payload's name."""

from __future__ import annotations

import functools
import platform
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from sealcar_server.metrics_calls import CallMetrics
from sealcar_server.metrics_keys import KeyMetrics
from sealcar_server.metrics_memory import MemoryMetrics
from sealcar_server.metrics_store import StoreMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from sealcar_server.access.audit.chain import Position

REASONS: Final = (
    "certificate",
    "own-uid",
    "sender",
    "sessions",
    "connections",
    "requests",
    "transfers",
    "streams",
)
PHASES: Final = (
    "open",
    "key",
    "memory",
    "queue",
    "fetch",
    "read",
    "decrypt",
    "first-touch",
    "place",
    "fill",
    "client-wait",
    "client-copy",
    "seal",
    "publish",
    "verify",
)
_SECONDS: Final = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300)


class Metrics:
    """The daemon's figures, in a registry of their own.

    Attributes:
        registry: all of them.
        calls, keys, memory, store: those of parts, which these tell themselves.
    """

    def __init__(self) -> None:
        # they double the number of series and say little
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's
        registry = self.registry = CollectorRegistry(auto_describe=True)
        self.calls: Final = CallMetrics(registry)
        self.keys: Final = KeyMetrics(registry)
        self.memory: Final = MemoryMetrics(registry)
        self.store: Final = StoreMetrics(registry)
        ProcessCollector(registry=registry)
        self._bytes = Counter(
            "sealcar_payload_bytes",
            "Plaintext bytes that clients read, wrote or imported: through a ring, over a stream, "
            "in one packet, as a shared segment, by grpc.",
            ["direction", "delivery"],
            registry=registry,
        )
        self._prefetched = Counter(
            "sealcar_prefetched_bytes",
            "Plaintext bytes that were got ready before anybody read them: in a segment, or their "
            "ciphertext in the page cache.",
            ["delivery"],
            registry=registry,
        )
        self._phases = Histogram(
            "sealcar_phase_seconds",
            "Time by what was being done for a request; of payloads, over all pieces together.",
            ["phase"],
            buckets=_SECONDS,
            registry=registry,
        )
        # what the library looks up by its labels at every call
        self._moved_by = functools.cache(self._bytes.labels)
        self._spent_in = functools.cache(self._phases.labels)
        self._transfers = Histogram(
            "sealcar_transfer_seconds",
            "Time from the start of a payload's transfer by a data socket to its end.",
            ["direction", "delivery"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._denials = Counter(
            "sealcar_denials",
            "Requests that were refused, by rule: unknown (may not list), right (may list), "
            "own-uid, peer, limit (too many of one caller). A rise means a wrong policy, or "
            "somebody trying.",
            ["rule"],
            registry=registry,
        )
        self._refusals = Counter(
            "sealcar_refusals",
            "Callers that were refused before anything was decided, by reason: "
            f"{', '.join(REASONS)}.",
            ["reason"],
            registry=registry,
        )
        self._rolled_back = Counter(
            "sealcar_rolled_back",
            "Older or forked generations and pointers that were refused; alert on any.",
            registry=registry,
        )
        self._isolation = Gauge(
            "sealcar_isolation",
            "1 for what keeps clients apart from the daemon: uid, or none; alert on none.",
            ["mode"],
            registry=registry,
        )
        self._draining = Gauge(
            "sealcar_draining",
            "1 while the daemon finishes and takes no new work.",
            registry=registry,
        )
        self._policy_generation = Gauge(
            "sealcar_policy_generation",
            "How many times the policy has been read well since the start.",
            registry=registry,
        )
        self._policy_failures = Counter(
            "sealcar_policy_reload_failures",
            "How many times the policy's file could not be used when it was read again.",
            registry=registry,
        )
        self._policy_broken = Gauge(
            "sealcar_policy_broken",
            "1 while the policy's file can't be used and the one read before is in force; "
            "alert on it.",
            registry=registry,
        )
        self._certificate_end = Gauge(
            "sealcar_tls_certificate_end_timestamp_seconds",
            "When the daemon's certificate expires, in seconds since 1970; alert some time before.",
            registry=registry,
        )
        self._certificate_broken = Gauge(
            "sealcar_tls_broken",
            "1 while the files of [tls] can't be used and those read before are in force; "
            "alert on it.",
            registry=registry,
        )
        self._locked = Gauge(
            "sealcar_locked",
            "1 while an operator's lock keeps every key away.",
            registry=registry,
        )
        self._audit = Info(
            "sealcar_audit",
            "The last line of the audit log, as of the last interval: its sequence and MAC.",
            registry=registry,
        )
        self._audit_writable = Gauge(
            "sealcar_audit_writable",
            "0 while the audit log can't be written; alert on it.",
            registry=registry,
        )
        # a daemon without an audit log lacks nothing that could be written
        self._audit_writable.set(1)
        self._audit_lag = Gauge(
            "sealcar_audit_lag_seconds",
            "For how long the oldest line of the audit log waits that may not be on the disk yet; "
            "alert if it stays above audit.sync_interval.",
            registry=registry,
        )
        self._build = Info("sealcar_build", "The daemon's release; always 1.", registry=registry)

    def started(
        self, release: str, isolation: str, memory_limit: int, aliases: Iterable[str] = ()
    ) -> None:
        """Record what doesn't change while the daemon runs."""
        self.keys.expect(aliases)
        self._build.info({"version": release, "python": platform.python_version()})
        for mode in ("uid", "none"):
            self._isolation.labels(mode).set(mode == isolation)
        self.memory.limit.set(memory_limit)
        for phase in PHASES:
            self._phases.labels(phase)
        for rule in ("unknown", "right", "own-uid", "peer", "limit"):
            self._denials.labels(rule)
        for reason in REASONS:
            self._refusals.labels(reason)
        for direction, delivery in (
            ("read", "ring"),
            ("read", "packet"),
            ("read", "segment"),
            ("read", "stream"),
            ("write", "ring"),
            ("write", "stream"),
        ):
            self._bytes.labels(direction, delivery)
        for direction in ("read", "write"):
            self._bytes.labels(direction, "grpc")
        for delivery in ("cache", "segment"):
            self._prefetched.labels(delivery)

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Yield name, labels and value of all samples but the buckets of histograms."""
        for family in self.registry.collect():
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    yield sample.name, sample.labels, sample.value

    def moved(self, direction: str, delivery: str, count: int) -> None:
        """Count plaintext bytes.

        Args:
            direction: "read" or "write".
            delivery: "ring", "stream", "packet", "segment" or "grpc".
            count: bytes.
        """
        self._moved_by(direction, delivery).inc(count)

    def prefetched(self, delivery: str, count: int) -> None:
        """Count plaintext bytes that were got ready: in the "cache", or in a "segment"."""
        self._prefetched.labels(delivery).inc(count)

    def transferred(self, direction: str, delivery: str, seconds: float) -> None:
        """Record how long a transfer took, however it ended."""
        self._transfers.labels(direction, delivery).observe(seconds)

    def spent(self, phase: str, seconds: float) -> None:
        """Record the time of one phase of a request."""
        self._spent_in(phase).observe(seconds)

    def seconds(self, phase: str, value: float) -> None:
        """Record the time of one phase, as the service says it."""
        self.spent(phase, value)

    def denied(self, rule: str) -> None:
        """Count a refusal by the rule that made it."""
        self._denials.labels(rule).inc()

    def refused(self, reason: str) -> None:
        """Count a caller that was refused before anything was decided."""
        self._refusals.labels(reason).inc()

    def rolled_back(self) -> None:
        """Count an older or forked generation, or pointer, that was refused."""
        self._rolled_back.inc()

    def sessions(self, count: int) -> None:
        """Record how many client processes are connected."""
        self.memory.sessions.set(count)

    def shared(self, count: int, locked: int, unlocked: int) -> None:
        """Record how many segments there are, and their bytes that are locked or not."""
        self.memory.shared(count, locked, unlocked)

    def follow_audit(self, lag: Callable[[], float]) -> None:
        """Ask this whenever somebody looks."""
        self._audit_lag.set_function(lag)

    def follow_lock(self, locked: Callable[[], bool]) -> None:
        """Ask this whenever somebody looks."""
        self._locked.set_function(locked)

    def policy(self, generation: int, broken: bool) -> None:  # noqa: FBT001  (a hook's argument)
        """Record which policy is in force, and whether the file could be one."""
        self._policy_generation.set(generation)
        self._policy_broken.set(broken)
        if broken:
            self._policy_failures.inc()

    def audited(self, last: Position, writable: bool) -> None:  # noqa: FBT001  (a hook's argument)
        """Record the audit log's last line, and whether there can be a next one."""
        self._audit.info({"sequence": str(last.sequence), "mac": last.mac})
        self._audit_writable.set(writable)

    def certificate(self, end: datetime, broken: bool) -> None:  # noqa: FBT001  (a hook's argument)
        """Record until when the daemon's certificate is good, and whether its files are."""
        self._certificate_end.set(end.timestamp())
        self._certificate_broken.set(broken)

    def draining(self) -> None:
        """Record that the daemon takes no new work."""
        self._draining.set(1)
