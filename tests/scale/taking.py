"""One time that many read at once: what came, how soon, and what it needed of everybody."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.processes import family
from scale.counting import KINDS, REFUSED
from scale.neighbours import Neighbours

from sealcar.benching.usage import counters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scale.bucket import Bucket
    from scale.clients import Together
    from support.daemon import Daemon

KEY_CALLS = "sealcar_key_provider_calls_total"


@dataclass(frozen=True)
class Sample:
    """What one time gave.

    Attributes:
        bytes: plaintext that all readers got.
        seconds: from the first one's beginning to the last one's end.
        readers: seconds that each took.
        first: seconds to the first byte of each blob.
        requests: to the bucket, by kind.
        own_requests: those of readers that asked it themselves; GET.
        passed: bytes that left the bucket's server, headers included.
        busy: seconds on a core, by role: daemons, readers, server.
        calm: nobody else used the machine meanwhile.
    """

    bytes: int
    seconds: float
    readers: tuple[float, ...]
    first: tuple[float, ...]
    requests: Mapping[str, int]
    own_requests: int
    passed: int
    busy: Mapping[str, float]
    calm: bool


def take(together: Together, daemons: Sequence[Daemon], bucket: Bucket | None) -> Sample:
    """Have all of them read once."""
    others = {
        "daemons": [pid for daemon in daemons for pid in family(daemon.pid)],
        "server": [bucket.pid] if bucket else [],
    }
    if bucket:
        bucket.requests.count()
    passed = bucket.link.passed() if bucket else 0
    before = {pid: counters(pid) for pids in others.values() for pid in pids}
    neighbours = Neighbours([os.getpid(), *together.pids, *before])
    done = together.go()
    seconds = max(each.ended for each in done) - min(each.begun for each in done)
    calm = neighbours.were_quiet()
    needed = {pid: counters(pid).since(before[pid]).busy for pid in before}
    return Sample(
        bytes=sum(each.bytes for each in done),
        seconds=seconds,
        readers=tuple(each.seconds for each in done),
        first=tuple(value for each in done for value in each.first),
        requests=bucket.requests.count() if bucket else {},
        own_requests=sum(each.requests for each in done),
        passed=bucket.link.passed() - passed if bucket else 0,
        busy={
            "readers": sum(each.busy for each in done),
            **{role: sum(needed[pid] for pid in pids) for role, pids in others.items() if pids},
        },
        calm=calm,
    )


def figures(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return what samples of the same kind say: medians, and quantiles over all first bytes.

    Those that others disturbed count only if there is no calm one.
    """
    kept = [each for each in samples if each.calm] or list(samples)
    whole = sum(each.bytes for each in kept)
    requests = sum((Counter(each.requests) for each in kept), Counter[str]())
    return {
        "gbps": _middle(each.bytes / each.seconds / 1e9 for each in kept),
        "seconds": _middle(each.seconds for each in kept),
        "first_byte_ms": {
            name: quantile([value for each in kept for value in each.first], part) * 1e3
            for name, part in (("p50", 0.5), ("p99", 0.99))
        },
        "first_bytes": sum(len(each.first) for each in kept),
        "slowest_reader_vs_median": _middle(
            max(each.readers) / statistics.median(each.readers) for each in kept
        ),
        "requests_per_gb": {
            kind: requests[kind] / whole * 1e9 for kind in (*KINDS, REFUSED) if requests[kind]
        },
        "passed_per_byte": sum(each.passed for each in kept) / whole,
        "core_seconds_per_gb": {
            role: sum(each.busy[role] for each in kept) / whole * 1e9 for role in kept[0].busy
        },
        "samples": len(kept),
        "disturbed": sum(not each.calm for each in samples),
    }


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of them lies; the largest, where they are few."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def _middle(values: Iterable[float]) -> float:
    return statistics.median(list(values))
