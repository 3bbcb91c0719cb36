"""The benchmark as somebody runs it: a quick run of one part, in which nothing is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import blob, summary

if TYPE_CHECKING:
    import pytest

_ROOT = Path(__file__).parents[2]


def test_a_quick_run_reports_every_way_and_every_promised_figure(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # a short name, since sockets are made below it
    kept, folder = tmp_path / "report.json", tmp_path_factory.mktemp("b")
    arguments = ["--quick", "--part", "blob", "--report", str(kept), "--folder", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(kept.read_text())
    rows = {row["way"]: row for row in found["parts"]["blob"]["rows"]}
    assert set(rows) == {blob.QNN, blob.PLAIN, blob.HUGE, blob.PROCESS, blob.TMPFS, blob.OURS}
    assert all(way in done.stdout for way in rows)
    assert set(found["ratios"]) == set(summary.FIGURES)
    assert {name for name, value in found["ratios"].items() if value} == {
        name for name, each in summary.FIGURES.items() if each.part == "blob"
    }
    assert {goal["met"] for goal in found["goals"].values()} == {None}
    _is_told_whole(rows[blob.OURS])
    assert found["machine"]["openssl"].startswith("OpenSSL")
    assert list(folder.iterdir()) == []


def _is_told_whole(row: dict[str, Any]) -> None:
    client, daemon = row["processes"]["client"], row["processes"]["daemon"]
    assert client["private"] > 16 << 20
    assert client["minor_faults"] > 0
    # what a daemon needed, only root may see
    assert os.geteuid() != 0 or daemon["logical_read"] >= 16 << 20
    assert row["traffic"]["copied"] == 3 * (16 << 20)
