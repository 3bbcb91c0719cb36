"""A fleet of nodes that all want the same package at once, from a bucket of a stated width.

A few nodes are real: a daemon with a directory of its own, and a reader that reads the whole
package. So many daemons as a fleet has need more memory and cores than one machine has; so each
other node is a process that fetches the package's objects as a daemon does, in the same ranges
over as many connections, and drops what comes. What the bucket, its link and the real nodes go
through is what a fleet would put them through; what the others would do with the bytes isn't there.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.processes import family, resident_memory
from scale import clients
from scale.counting import KINDS
from scale.nodes import Cluster, InBucket, started
from scale.taking import KEY_CALLS, quantile, take

from sealcar.benching.caches import below, drop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scale.bucket import Bucket
    from scale.plan import Plan
    from scale.taking import Sample
    from support.daemon import Daemon

EMPTY: Final = "nothing kept"
KEPT: Final = "started again, all of it kept"
UNKEPT: Final = "any start, no cache"
PREFIX: Final = "fleet"


@dataclass(frozen=True)
class _Fleet:
    """Who wants the package, and by which link."""

    plan: Plan
    bucket: Bucket
    daemons: Sequence[Daemon]
    others: Sequence[clients.Command]

    @property
    def rate(self) -> float:
        """Bytes a second: of the whole fleet, or what is those daemons' share of that."""
        share = 1.0 if self.others else self.plan.real / self.plan.fleet
        return self.plan.rate * share

    def bound(self) -> None:
        """Bound the link."""
        if self.bucket.link.interface:
            self.bucket.link.bound(self.rate)


def measure(plan: Plan, bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for a first start of the whole fleet, and for one with what nodes kept."""
    cluster = _cluster(plan, bucket, {})
    payloads = bucket.payloads(PREFIX)
    with cluster.nodes(plan.real, running=False) as daemons:
        others = [clients.stand_in(bucket, payloads) for _ in range(plan.fleet - plan.real)]
        rows = [_start(_Fleet(plan, bucket, daemons, others), EMPTY)]
        stayed = drop(file for each in daemons for file in below(each.folder))
        row = _start(_Fleet(plan, bucket, daemons, []), KEPT)
        rows.append({**row, "in_page_cache": stayed})
    return rows


def measure_without_cache(plan: Plan, bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for any start of nodes that may keep nothing."""
    cluster = _cluster(plan, bucket, {"store.cache_size": "0"})
    with cluster.nodes(plan.real, running=False) as daemons:
        return [_start(_Fleet(plan, bucket, daemons, []), UNKEPT)]


def _cluster(plan: Plan, bucket: Bucket, settings: Mapping[str, str]) -> Cluster:
    folder = plan.folder / "fleet"
    folder.mkdir()
    return Cluster(folder, InBucket(bucket, PREFIX, settings), plan.package)


def _start(fleet: _Fleet, way: str) -> dict[str, Any]:
    plan, bucket, daemons, others = fleet.plan, fleet.bucket, fleet.daemons, fleet.others
    plan.say(f"  {len(daemons)} daemons and {len(others)} who stand in for some: {way}")
    fleet.bound()
    bucket.requests.count()
    begun = time.monotonic()
    with ExitStack() as running:
        running.enter_context(started(daemons))
        serving = time.monotonic() - begun
        readers = [
            clients.reader(clients.C, each.socket, plan.streams, plan.package.size)
            for each in daemons
        ]
        before = bucket.requests.count()
        together = running.enter_context(clients.together([*readers, *others]))
        sample = take(together, daemons, bucket)
        row = _row(sample, len(daemons), before) | {
            "way": way,
            "nodes": plan.fleet,
            "package": plan.package.bytes,
            "rate": fleet.rate if bucket.link.interface else None,
            "daemons_serving": serving,
            "key_calls_of_a_real_node": _key_calls(daemons),
            "resident": max(resident_memory(pid) for each in daemons for pid in family(each.pid)),
        }
    plan.say(f"    all have it after {sample.seconds:.1f} s")
    return row


def _row(sample: Sample, real: int, before: Mapping[str, int]) -> dict[str, Any]:
    """Return what a sample says, of which the first readers are the real nodes' own.

    Args:
        sample: of the whole fleet.
        real: how many real nodes there are.
        before: requests while their daemons started.
    """
    asked = Counter(sample.requests) - Counter(GET=sample.own_requests)
    return {
        "real": real,
        "seconds": {
            "all": sample.seconds,
            "real": _spread(sample.readers[:real]),
            "others": _spread(sample.readers[real:]),
        },
        "passed": sample.passed,
        "requests_of_a_real_node": _each(asked, real),
        "requests_of_a_daemon_that_starts": _each(before, real),
        "first_byte_ms": {
            "p50": quantile(sample.first, 0.5) * 1e3,
            "p99": quantile(sample.first, 0.99) * 1e3,
        },
        "busy": dict(sample.busy),
        "calm": sample.calm,
    }


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {"min": min(seconds), "median": statistics.median(seconds), "max": max(seconds)}


def _each(requests: Mapping[str, int], nodes: int) -> dict[str, float]:
    return {kind: requests[kind] / nodes for kind in KINDS if requests.get(kind)}


def _key_calls(daemons: Sequence[Daemon]) -> float:
    """Return how often a daemon asked its key's provider, since it started."""
    return statistics.mean(
        sum(value for (name, _), value in each.metrics().items() if name == KEY_CALLS)
        for each in daemons
    )
