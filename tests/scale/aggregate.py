"""1 … N daemons on one bucket: how much comes through them together, and how soon it begins."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from scale import clients
from scale.nodes import Cluster, InBucket, OnDisk
from scale.taking import figures, take

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scale.bucket import Bucket
    from scale.nodes import Site
    from scale.plan import Plan
    from scale.taking import Sample

PREFIX: Final = "daemons"
FIRST: Final = "from the bucket"
AGAIN: Final = "from the local cache"
SERVER: Final = "of the server alone"
DISK: Final = "no bucket, first time"
DISK_AGAIN: Final = "no bucket, again"


def measure(plan: Plan, bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for each language, number of daemons, and where the bytes came from.

    Each daemon has one reader, which asks for some payloads at once. Each sample has daemons of its
    own, which have never read anything: the first time all comes from the bucket, the second time
    from what they kept. And, of the server alone, what it sends to as many who drop it. Then the
    same with the whole store on each node's own disk, but for a quick run.
    """
    rows: list[dict[str, Any]] = []
    sites: tuple[Site, ...] = (InBucket(bucket, PREFIX),)
    for site in sites if plan.quick else (*sites, OnDisk()):
        folder = plan.folder / f"daemons-{len(rows)}"
        folder.mkdir()
        cluster = Cluster(folder, site, plan.contents)
        over = bucket if isinstance(site, InBucket) else None
        for count in plan.daemons:
            rows += _with(plan, cluster, count, over)
            if over:
                rows.append(_server_alone(plan, count, over))
    return rows


def _with(
    plan: Plan, cluster: Cluster, count: int, bucket: Bucket | None
) -> Iterable[dict[str, Any]]:
    ways = (FIRST, AGAIN) if bucket else (DISK, DISK_AGAIN)
    taken: dict[tuple[str, str], list[Sample]] = {}
    for turn in range(plan.rounds):
        for language in clients.LANGUAGES[:: 1 if turn % 2 else -1]:
            with ExitStack() as running:
                daemons = running.enter_context(cluster.nodes(count))
                readers = [
                    clients.reader(language, each.socket, plan.streams, plan.contents.size)
                    for each in daemons
                ]
                together = running.enter_context(clients.together(readers))
                for way in ways:
                    sample = take(together, daemons, bucket)
                    taken.setdefault((language, way), []).append(sample)
                    _tell(plan, f"{count} daemons, {language}, {way}", sample)
    for (language, way), samples in sorted(taken.items()):
        yield {"daemons": count, "language": language, "way": way, **figures(samples)}


def _server_alone(plan: Plan, count: int, bucket: Bucket) -> dict[str, Any]:
    payloads = bucket.payloads(PREFIX)
    samples = []
    for _ in range(plan.rounds):
        others = [clients.stand_in(bucket, payloads) for _ in range(count)]
        with clients.together(others) as together:
            samples.append(take(together, [], bucket))
        _tell(plan, f"{count} who drop it, {SERVER}", samples[-1])
    return {"daemons": count, "language": clients.C, "way": SERVER, **figures(samples)}


def _tell(plan: Plan, what: str, sample: Sample) -> None:
    calm = "" if sample.calm else " (disturbed)"
    plan.say(f"    {what}: {sample.bytes / sample.seconds / 1e9:.2f} GB/s{calm}")
