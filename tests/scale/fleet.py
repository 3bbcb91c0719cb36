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
    from support.daemon import Daemon

EMPTY: Final = "nothing kept"
KEPT: Final = "started again, all of it kept"
PREFIX: Final = "fleet"


def measure(plan: Plan, bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for a first start of the whole fleet, and for one with what nodes kept."""
    folder = plan.folder / "fleet"
    folder.mkdir()
    cluster = Cluster(folder, InBucket(bucket, PREFIX), plan.package)
    objects = bucket.payloads(PREFIX)
    if bucket.link.interface:
        bucket.link.bound(plan.rate)
    with cluster.nodes(plan.real, running=False) as daemons:
        others = [clients.stand_in(bucket, objects) for _ in range(plan.fleet - plan.real)]
        rows = [_start(plan, bucket, daemons, others, EMPTY)]
        stayed = drop(file for each in daemons for file in below(each.folder))
        # nodes that have it all ask for next to nothing: nobody has to stand in for them
        rows.append({**_start(plan, bucket, daemons, [], KEPT), "in_page_cache": stayed})
    if bucket.link.interface:
        bucket.link.bound(None)
    return rows


def _start(
    plan: Plan,
    bucket: Bucket,
    daemons: Sequence[Daemon],
    others: Sequence[clients.Command],
    way: str,
) -> dict[str, Any]:
    plan.say(f"  {len(daemons)} daemons and {len(others)} who stand in for some: {way}")
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
        real, rest = sample.readers[: len(daemons)], sample.readers[len(daemons) :]
        asked = Counter(sample.requests) - Counter(GET=sample.own_requests)
        row = {
            "way": way,
            "nodes": plan.fleet,
            "real": len(daemons),
            "package": plan.package.bytes,
            "rate": plan.rate if bucket.link.interface else None,
            "daemons_serving": serving,
            "seconds": {"all": sample.seconds, "real": _spread(real), "others": _spread(rest)},
            "passed": sample.passed,
            "requests_of_a_real_node": _each(asked, len(daemons)),
            "requests_of_a_daemon_that_starts": _each(before, len(daemons)),
            "key_calls_of_a_real_node": _key_calls(daemons),
            "resident": max(resident_memory(pid) for each in daemons for pid in family(each.pid)),
            "first_byte_ms": {
                "p50": quantile(sample.first, 0.5) * 1e3,
                "p99": quantile(sample.first, 0.99) * 1e3,
            },
            "busy": dict(sample.busy),
            "calm": sample.calm,
        }
    plan.say(f"    all have it after {sample.seconds:.1f} s")
    return row


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
