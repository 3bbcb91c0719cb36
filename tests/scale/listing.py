"""What it asks of a bucket, and how long it takes, to list all packages that are in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from bench.bulk import publish
from scale.nodes import Cluster, Contents, InBucket

if TYPE_CHECKING:
    from scale.bucket import Bucket
    from scale.plan import Plan

FIRST: Final = "first time"
AGAIN: Final = "again"
_PREFIX: Final = "listing"
_SMALL: Final = Contents(1, 4096)


def measure(plan: Plan, bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for each number of packages, listed by a daemon that knows none, and again."""
    folder = plan.folder / "listing"
    folder.mkdir()
    cluster = Cluster(folder, InBucket(bucket, _PREFIX), _SMALL)
    rows, there = [], 1
    for count in plan.packages:
        if count > there:
            with cluster.nodes(1) as (writer,), writer.connect(timeout=60) as client:
                for number in range(there, count):
                    publish(client, _SMALL.planned(), f"more-{number}")
        there = max(there, count)
        with cluster.nodes(1) as (daemon,), daemon.connect(timeout=60) as client:
            for way in (FIRST, AGAIN):
                bucket.requests.count()
                begun = time.monotonic()
                found = sum(1 for _ in client.catalogue.list())
                took = time.monotonic() - begun
                if found != there:
                    raise RuntimeError(f"{found} packages of {there} are listed")
                plan.say(f"  {count} packages listed, {way}: {took * 1e3:.0f} ms")
                asked = dict(bucket.requests.count())
                rows.append({"packages": count, "way": way, "seconds": took, "requests": asked})
    return rows
