"""What docs/scale.md shows is what its report says, and what follows from it on paper."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from scale import aggregate, clients, fleet, listing, page, page_paper, paper
from scale.bucket import Bucket
from scale.report import PARTS

NODE = paper.Measured(
    package=2e9,
    passed=1.05,
    requests=300,
    key_calls=1,
    core_seconds=1.0,
    again=0.3,
    reader=0.1,
    list_requests=110,
    packages=100,
    connections=8,
)


def served(way: str, language: str = clients.C) -> dict[str, Any]:
    return {
        "daemons": 1,
        "language": language,
        "way": way,
        "gbps": 1.234,
        "seconds": 0.5,
        "first_byte_ms": {"p50": 3.0, "p99": 21.5},
        "first_bytes": 96,
        "slowest_reader_vs_median": 1.0,
        "requests_per_gb": {"GET": 121.0, "HEAD": 2.0},
        "passed_per_byte": 1.01,
        "core_seconds_per_gb": {"readers": 0.1, "daemons": 1.0, "server": 0.4},
        "samples": 3,
        "disturbed": 1,
    }


def started(way: str) -> dict[str, Any]:
    return {
        "way": way,
        "nodes": 50,
        "real": 4,
        "package": 2_000_000_000,
        "rate": 1.25e9,
        "daemons_serving": 1.5,
        "seconds": {
            "all": 84.0,
            "real": {"min": 80.0, "median": 82.0, "max": 84.0},
            "others": {},
        },
        "passed": 105_000_000_000,
        "requests_of_a_real_node": {"GET": 290.0},
        "requests_of_a_daemon_that_starts": {"GET": 6.0, "LIST": 4.0},
        "key_calls_of_a_real_node": 1.0,
        "resident": 200 << 20,
        "first_byte_ms": {"p50": 3.0, "p99": 20.0},
        "busy": {},
        "calm": True,
    }


def report() -> dict[str, Any]:
    ways = (aggregate.FIRST, aggregate.AGAIN)
    lists = [
        {"packages": count, "way": way, "seconds": 0.02, "requests": {"GET": count, "LIST": 1}}
        for count in (1, 100)
        for way in (listing.FIRST, listing.AGAIN)
    ]
    rows = {
        "daemons": [served(way) for way in ways],
        "daemons-on-disk": [served(aggregate.DISK)],
        "fleet": [started(fleet.EMPTY), started(fleet.KEPT)],
        "fleet-without-cache": [started(fleet.UNKEPT)],
        "listing": lists,
    }
    told = {"began": "2030-01-01T00:00:00Z", "seconds": 60.0, "server": "versitygw"}
    return {
        "machine": {**dict.fromkeys(page.MACHINE, "some"), "commit": "abc"},
        "quick": False,
        "plan": {
            "served": {"blobs": 32, "size": 16 << 20},
            "wanted": {"blobs": 8, "size": 250_000_000},
            "rounds": 3,
            "streams": 2,
            "fleet": 50,
            "real": 4,
            "rate": 1.25e9,
            "stand_ins": {"connections": 8, "piece": 8 << 20},
        },
        "parts": {name: {**told, "rows": rows[name]} for name in PARTS},
    }


def test_the_page_shows_what_its_report_says() -> None:
    kept = json.loads(page.KEPT.read_text())
    assert not kept["quick"]
    assert page.figures(kept) in page.PAGE.read_text()


def test_the_tables_have_each_figure_of_a_report() -> None:
    made = page.figures(report())
    assert "| from the bucket | 1 | C | 1.23 | 3.0 ms | 21.5 ms | 121 | 2 | 0 | 0 | 1.00 |" in made
    assert "| 1.5 s | 84.0 s | 82.0 s | 84.0 s |  |  | 105.00 GB | 0.00 s | 0.02 s |" in made
    assert "| 0.02 s | 296 | 0 | 4 | 0 | 1 |" in made
    assert "| 100 | first time | 20.0 ms | 100 | 0 | 1 | 0 |" in made
    assert "the bucket's link: 10 Gbit/s" in made


def test_one_node_is_what_a_report_has_of_it() -> None:
    found = paper.measured(report())
    assert found == replace(NODE, requests=300, list_requests=101, again=1.0)


def test_a_fleet_waits_for_what_takes_longest() -> None:
    assumed = paper.Assumed()
    found = paper.seconds(1000, NODE, assumed)
    # 1,000 nodes, 2.1 GB each, over 1.25 GB/s
    assert found["bucket's bandwidth"] == pytest.approx(1680)
    assert found["a node's connections"] == pytest.approx(2.1e9 / (8 * 85e6))
    assert found["a node's network card"] == pytest.approx(2.1e9 / 3.125e9)
    assert found["requests to the prefix"] == pytest.approx(300_000 / 5500)
    assert found["lists of the prefix"] == pytest.approx(20)
    assert found["calls of the key service"] == pytest.approx(1)
    assert found["a daemon's cores"] == pytest.approx(1)
    assert paper.saturates(found)[0] == "bucket's bandwidth"
    # a node alone needs 3.09 s for its connections: the bucket's link lasts for two
    assert paper.crossing(NODE, assumed) == pytest.approx(2.1e9 / (8 * 85e6) / 1.68)
    wide = paper.seconds(1000, NODE, replace(assumed, bucket=1e12))
    assert paper.saturates(wide)[0] == "requests to the prefix"


def test_nodes_that_only_look_ask_the_bucket_too() -> None:
    # 1,000 nodes, two requests each in ten seconds
    assert paper.watched(1000, paper.Assumed()) == pytest.approx(200)


def test_every_resource_has_its_formula() -> None:
    assert page_paper.FORMULAE.keys() == paper.seconds(1, NODE, paper.Assumed()).keys()


def test_requests_are_priced_by_kind() -> None:
    made = "\n".join(page_paper.lines(report()))
    # 296 at 0.0004 and 4 at 0.005 for a thousand
    assert f"{(296 * 0.0004 + 4 * 0.005) / 1000:.2g} USD a node" in made


def test_a_bucket_does_not_show_its_secret() -> None:
    assert "secret" not in {
        each for each, field in Bucket.__dataclass_fields__.items() if field.repr
    }
