"""1 … N daemons on one bucket: how much comes through them together, and how soon it begins."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from scale import clients
from scale.nodes import Cluster, InBucket, OnDisk
from scale.taking import figures, take

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from scale.bucket import Bucket
    from scale.clients import Together
    from scale.nodes import Site
    from scale.plan import Plan
    from scale.taking import Sample
    from support.daemon import Daemon

PREFIX: Final = "daemons"
FIRST: Final = "from the bucket"
AGAIN: Final = "from the local cache"
SERVER: Final = "of the server alone"
DISK: Final = "no bucket"


def measure(plan: Plan, bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for each language, number of daemons, and where the bytes came from.

    Each daemon has one reader, which asks for some payloads at once. Each sample has daemons of its
    own, which have never read anything: the first time all comes from the bucket, the second time
    from what they kept. And, of the server alone, what it sends to as many who drop it.
    """
    rows: list[dict[str, Any]] = []
    cluster = _cluster(plan, "shared", InBucket(bucket, PREFIX))
    for count in plan.daemons:
        rows += _over_bucket(plan, cluster, count, bucket)
        rows.append(_server_alone(plan, count, bucket))
    return rows


def measure_on_disk(plan: Plan, _bucket: Bucket) -> list[dict[str, Any]]:
    """Return a row for each language and number of daemons that have all on their own disks."""
    cluster = _cluster(plan, "own", OnDisk())
    return [row for count in plan.daemons for row in _on_disk(plan, cluster, count)]


def _cluster(plan: Plan, name: str, site: Site) -> Cluster:
    folder = plan.folder / name
    folder.mkdir()
    return Cluster(folder, site, plan.contents)


def _over_bucket(
    plan: Plan, cluster: Cluster, count: int, bucket: Bucket
) -> Iterable[dict[str, Any]]:
    taken: dict[tuple[str, str], list[Sample]] = {}
    for language in _turns(plan):
        with ExitStack() as running:
            daemons = running.enter_context(cluster.nodes(count))
            together = running.enter_context(_readers(plan, daemons, language))
            for way in (FIRST, AGAIN):
                sample = take(together, daemons, bucket)
                taken.setdefault((language, way), []).append(sample)
                _tell(plan, f"{count} daemons, {language}, {way}", sample)
    return _rows(count, taken)


def _on_disk(plan: Plan, cluster: Cluster, count: int) -> Iterable[dict[str, Any]]:
    taken: dict[tuple[str, str], list[Sample]] = {}
    with cluster.nodes(count) as daemons:
        for language in _turns(plan):
            with _readers(plan, daemons, language) as together:
                # those over a bucket have made their rings when they read again
                take(together, daemons, None)
                sample = take(together, daemons, None)
                taken.setdefault((language, DISK), []).append(sample)
                _tell(plan, f"{count} daemons, {language}, {DISK}", sample)
    return _rows(count, taken)


def _turns(plan: Plan) -> Iterable[str]:
    for turn in range(plan.rounds):
        yield from clients.LANGUAGES[:: 1 if turn % 2 else -1]


def _readers(
    plan: Plan, daemons: Sequence[Daemon], language: str
) -> AbstractContextManager[Together]:
    return clients.together(
        [
            clients.reader(language, each.socket, plan.streams, plan.contents.size)
            for each in daemons
        ]
    )


def _rows(
    count: int, taken: Mapping[tuple[str, str], Sequence[Sample]]
) -> Iterable[dict[str, Any]]:
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
