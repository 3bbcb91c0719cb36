"""The benchmark as somebody runs it: a quick run of one part, in which nothing is left out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench import blob, summary

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one with a short name, since sockets are made below it."""
    return tmp_path_factory.mktemp("b")


def _start(part: str, folder: Path, report: Path) -> subprocess.Popen[str]:
    arguments = ["--quick", "--part", part, "--report", str(report), "--folder", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_quick_run_reports_every_way_and_every_promised_figure(
    tmp_path: Path, folder: Path
) -> None:
    kept = tmp_path / "report.json"
    with _start("blob", folder, kept) as process:
        said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    found = json.loads(kept.read_text())
    rows = {row["way"]: row for row in found["parts"]["blob"]["rows"]}
    assert set(rows) == {blob.QNN, blob.PLAIN, blob.HUGE, blob.PROCESS, blob.TMPFS, blob.OURS}
    assert all(way in said for way in rows)
    assert set(found["ratios"]) == set(summary.FIGURES)
    assert {name for name, value in found["ratios"].items() if value} == {
        name for name, each in summary.FIGURES.items() if each.part == "blob"
    }
    assert {goal["met"] for goal in found["goals"].values()} == {None}
    _is_told_whole(rows[blob.OURS])
    assert found["machine"]["openssl"].startswith("OpenSSL")
    assert list(folder.iterdir()) == []


def test_an_interrupt_leaves_no_process_and_no_file_behind(tmp_path: Path, folder: Path) -> None:
    with _start("small", folder, tmp_path / "report.json") as process:
        assert process.stderr
        # the first sample was taken, and the big transfers begin
        while "idle: " not in process.stderr.readline():
            assert process.poll() is None
        # as from a terminal: to all that didn't leave the group
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.rstrip().endswith("interrupted; the parts that had ended are in the report")
    assert list(folder.iterdir()) == []
    assert [line for line in _commands() if str(folder) in line] == []


def _commands() -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_text())
    return found


def _is_told_whole(row: dict[str, Any]) -> None:
    client, daemon = row["processes"]["client"], row["processes"]["daemon"]
    assert client["private"] > 16 << 20
    assert client["minor_faults"] > 0
    # what a daemon needed, only root may see
    assert os.geteuid() != 0 or daemon["logical_read"] >= 16 << 20
    assert row["traffic"]["copied"] == 3 * (16 << 20)
