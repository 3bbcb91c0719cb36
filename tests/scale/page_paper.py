"""What a fleet of thousands needs, on paper, as Markdown: inputs, times, remedies and prices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from scale import paper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BUCKETS: Final = {
    "one server, 10 Gbit/s": 10 * paper.GBIT,
    "a small cluster, 100 Gbit/s": 100 * paper.GBIT,
    "a cloud's, 1 Tbit/s": 1000 * paper.GBIT,
}
# of S3 Standard in us-east-1, USD for 1,000 requests: GET and HEAD; PUT, COPY, POST and LIST
_CHEAP: Final = 0.0004
_DEAR: Final = 0.005
_WAVES: Final = 20
_REPLICAS: Final = 10
_RACK: Final = 25
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections."""
    node, assumed = paper.measured(report), paper.Assumed()
    yield "### Requests in money"
    yield ""
    yield from _prices(report)
    yield ""
    yield f"### On paper: {paper.NODES:,} nodes at once"
    yield ""
    yield from _inputs(node, assumed)
    yield ""
    yield from _times(node, assumed)
    yield ""
    yield from _watching(assumed)
    yield ""
    yield "### What a remedy is worth"
    yield ""
    again = report["parts"]["fleet"]["rows"][1]["seconds"]["real"]
    yield from _remedies(node, assumed, again)


def _prices(report: Mapping[str, Any]) -> Iterator[str]:
    row = report["parts"]["fleet"]["rows"][0]
    asked = {
        kind: row["requests_of_a_real_node"].get(kind, 0)
        + row["requests_of_a_daemon_that_starts"].get(kind, 0)
        for kind in ("GET", "HEAD", "LIST", "PUT")
    }
    cheap, dear = asked["GET"] + asked["HEAD"], asked["LIST"] + asked["PUT"]
    node = (cheap * _CHEAP + dear * _DEAR) / 1000
    gigabyte = node / row["package"] * 1e9
    yield (
        f"A node that has nothing asks {cheap:.4g} times for GET or HEAD and {dear:.4g} times for"
        f" LIST or PUT until it has the package of {row['package'] / 1e9:g} GB. At {_CHEAP:g} USD"
        f" for 1,000 of the former and {_DEAR:g} USD for 1,000 of the latter that is"
        f" {gigabyte:.2g} USD per GB, {node:.2g} USD a node, and"
        f" {node * paper.NODES:.2g} USD for {paper.NODES:,} nodes."
    )


def _inputs(node: paper.Measured, assumed: paper.Assumed) -> Iterator[str]:
    yield "| input | | |"
    yield "|---|---|---|"
    for name, value in (
        ("S, the package", f"{node.package / 1e9:g} GB"),
        ("o, bytes that leave the bucket for one of the package", f"{node.passed:.3f}"),
        ("q, requests of a node until it has it", f"{node.requests:.4g}"),
        (f"l, requests to list {node.packages:,} packages", f"{node.list_requests:.4g}"),
        ("k, key calls of a node", f"{node.key_calls:.4g}"),
        ("p, core seconds of the daemon for 1 GB from the bucket", f"{node.core_seconds:.2f}"),
        ("the same, from what it kept", f"{node.again:.2f}"),
        ("core seconds of the reader for 1 GB", f"{node.reader:.2f}"),
    ):
        yield f"| {name} | {value} | measured |"
    for name, value in (
        ("B, the bucket's bandwidth", f"{assumed.bucket / paper.GBIT:g} Gbit/s, and more below"),
        ("c, a node's connections to it", f"{node.connections}"),
        ("r, one connection", f"{assumed.connection / 1e6:g} MB/s"),
        ("N, a node's network card", f"{assumed.nic / paper.GBIT:g} Gbit/s"),
        ("Q, requests a second to one prefix", f"{assumed.asked:g}"),
        ("K, calls a second of the key service", f"{assumed.keys:g}"),
        ("C, cores of a node for its daemon", f"{assumed.cores:g}"),
        ("w, requests to look after a version in use", f"{assumed.watching:g}"),
        ("R, `store.refresh`", f"{assumed.refresh:g} s"),
    ):
        yield f"| {name} | {value} | assumed |"


FORMULAE: Final = {
    "bucket's bandwidth": "n · S · o ÷ B",
    "a node's connections": "S · o ÷ (c · r)",
    "a node's network card": "S · o ÷ N",
    "requests to the prefix": "n · q ÷ Q",
    "lists of the prefix": "n · l ÷ Q",
    "calls of the key service": "n · k ÷ K",
    "a daemon's cores": "S · p ÷ C",
}


def _times(node: paper.Measured, assumed: paper.Assumed) -> Iterator[str]:
    found = {
        name: paper.seconds(paper.NODES, node, replace(assumed, bucket=rate))
        for name, rate in _BUCKETS.items()
    }
    yield f"| what would bound it alone | n = {paper.NODES:,} | {' | '.join(found)} |"
    yield "|---|---|" + "---|" * len(found)
    for resource, formula in FORMULAE.items():
        cells = [_seconds(each[resource]) for each in found.values()]
        yield f"| {resource} | {formula} | {' | '.join(cells)} |"
    first = [f"**{paper.saturates(each)[0]}**" for each in found.values()]
    yield f"| saturates first | | {' | '.join(first)} |"
    yield ""
    counts = [
        f"{paper.crossing(node, replace(assumed, bucket=rate)):.0f} nodes ({name})"
        for name, rate in _BUCKETS.items()
    ]
    yield (
        f"The bucket's bandwidth is what a fleet waits for from {', '.join(counts)} on; with fewer,"
        " each node waits for itself."
    )


def _watching(assumed: paper.Assumed) -> Iterator[str]:
    second = paper.watched(paper.NODES, assumed)
    most = assumed.asked / second
    yield (
        f"Afterwards {paper.NODES:,} nodes look whether somebody published: n · w ÷ R ="
        f" {second:g} requests a second for each version in use, {second * _DAY / 1e6:.3g} million"
        f" a day, {second * _DAY * _CHEAP / 1000:.2g} USD a day. One prefix answers so much for"
        f" {most:.0f} versions (Q ÷ that); a longer R divides it."
    )


def _remedies(
    node: paper.Measured, assumed: paper.Assumed, again: Mapping[str, float]
) -> Iterator[str]:
    sent = paper.NODES * node.package * node.passed
    whole = sent / assumed.bucket
    alone = paper.saturates(
        {
            name: value
            for name, value in paper.seconds(1, node, assumed).items()
            if name.startswith("a ")
        }
    )[1]
    yield f"With {paper.NODES:,} nodes and the bucket of {assumed.bucket / paper.GBIT:g} Gbit/s:"
    yield ""
    yield "| remedy | formula | a node waits | all have it after |"
    yield "|---|---|---|---|"
    wave = max(whole / _WAVES, alone)
    replica, rack = max(whole / _REPLICAS, alone), max(whole / _RACK, alone)
    for name, formula, one, everybody in (
        ("none: all at once", "n · S · o ÷ B", whole, whole),
        (f"{_WAVES} waves, one after the other", "the same ÷ waves", wave, wave * _WAVES),
        (f"{_REPLICAS} replicas of the bucket", "the same ÷ replicas", replica, replica),
        (f"a cache for each {_RACK} nodes", "the same ÷ nodes of a cache", rack, rack),
        ("kept from the last time", "measured", again["median"], again["max"]),
    ):
        yield f"| {name} | {formula} | {_seconds(one)} | {_seconds(everybody)} |"
    yield ""
    yield (
        f"Fetched ahead within an hour, the bucket has to send {sent / _HOUR / paper.GBIT:.2g}"
        f" Gbit/s: n · S · o ÷ 3600 s."
    )


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"
