"""The benchmark of many daemons over one bucket works, whole and small; figures mean nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from scale import paper, plan, report

# the others are of the same pieces
PARTS = ("daemons", "fleet", "listing")
pytest.importorskip("obstore", reason="needs the extra s3")


def test_daemons_a_fleet_and_lists_are_measured_over_one_bucket(tmp_path: Path) -> None:
    kept = tmp_path / "report.json"
    # a socket's path has to be short
    with tempfile.TemporaryDirectory() as folder:
        found = report.measure(plan.quick(Path(folder)), PARTS, kept)
        assert list(Path(folder).iterdir()) == []
    assert found == json.loads(kept.read_text())
    daemons, fleet, lists = (found["parts"][name]["rows"] for name in PARTS)
    fetched = [row for row in daemons if row["requests_per_gb"].get("GET")]
    assert {row["language"] for row in fetched} == {"C", "Python"}
    assert all(row["gbps"] > 0 for row in daemons)
    empty, again = fleet
    assert empty["requests_of_a_real_node"]["GET"] > again["requests_of_a_real_node"].get("GET", 0)
    assert [row["packages"] for row in lists] == [1, 1]
    assert paper.measured(found).requests > 0
