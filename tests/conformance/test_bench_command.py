"""`sealcar bench`, as somebody with a model of his own runs it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import models, onnx_models
from support.daemon import Daemon, answer, run_command

from sealcar.benching import stage, trial
from sealcar.benching.jobs import INFERENCE, MEMORY, MOMENTS, PREFIX, READY
from sealcar.demo.missing import model_of_magika

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory whose path is short enough for sockets far below it."""
    with tempfile.TemporaryDirectory(prefix="b-") as directory:
        yield Path(directory)


def ways_of(found: dict[str, Any]) -> dict[str, Any]:
    return {each["way"]: each for each in found["ways"]}


def test_a_real_model_is_measured_in_every_way_and_nothing_of_it_stays(place: Path) -> None:
    done = run_command("bench", str(model_of_magika()), "--quick", "--json", TMPDIR=str(place))
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    ways = ways_of(found)
    assert list(ways) == [
        *(trial.PLAINLY, trial.TUNED_PLAINLY, trial.PRIVATE),
        *(trial.SHARED_FIRST, trial.SHARED_NEXT, trial.BY_TMPFS),
    ]
    for way in ways.values():
        moments = {name: each["seconds"]["median"] for name, each in way["moments"].items()}
        assert tuple(moments) == MOMENTS
        assert all(0 < seconds < 60 for seconds in moments.values())
        assert moments[READY] < moments[INFERENCE]
        assert way["processes"]["client"]["minor_faults"] > 0
        assert (
            way["processes"]["client"]["private_peak"] > way["processes"]["client"]["private_idle"]
        )
        assert way["runtime"]["ep"] == "CPUExecutionProvider"
    assert found["answers_differ"] == []
    assert set(found["ratios"]) == {
        *("plain_with_options_vs_plain", "private_vs_plain"),
        *("shared_first_vs_plain", "shared_next_vs_plain", "tmpfs_vs_plain"),
    }
    size = model_of_magika().stat().st_size
    assert ways[trial.PLAINLY]["processes"]["client"]["logical_read"] >= size
    assert ways[trial.PRIVATE]["bytes"]["copied"] > 0.9 * size
    assert 0 < ways[trial.SHARED_NEXT]["bytes"]["mapped"] <= size
    assert (
        ways[trial.SHARED_NEXT]["touched_after_ready"] >= ways[trial.SHARED_NEXT]["bytes"]["mapped"]
    )
    assert list(found["sha256"]) == ["model.onnx"]
    assert list(place.iterdir()) == []
    assert [path for path in Path(MEMORY).iterdir() if path.name.startswith(PREFIX)] == []


def test_without_the_daemons_part_the_one_that_runs_is_measured(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "small.onnx"
    model.write_bytes(models.whole_model())
    monkeypatch.setattr(stage, "server_installed", lambda: False)
    monkeypatch.setenv("SEALCAR_SOCKET", str(daemon.socket))
    refused = answer("bench", str(model), "--quick", code=3)
    assert "pip install 'sealcar[server]'" in refused["error"]["message"]
    assert answer("import", str(model), "--name", "mine")["name"] == "mine"
    found = answer("bench", str(model), "--quick", "--package", "mine")
    assert found["daemon"] == "the one that runs"
    assert trial.SHARED_FIRST not in ways_of(found)
    assert set(ways_of(found)) >= {trial.PLAINLY, trial.PRIVATE}
    cold = answer("bench", str(model), "--cold", "--package", "mine", code=2)
    assert "--cold needs a daemon of its own" in cold["error"]["message"]
    model.write_bytes(models.whole_model(parts=2))
    other = answer("bench", str(model), "--quick", "--package", "mine", code=1)
    assert "isn't" in other["error"]["message"]


def test_what_cant_be_measured_is_refused_with_the_remedy(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(onnx_models.raw(onnx_models.model(onnx_models.located("gone.bin"))))
    missing = answer("bench", str(model), code=1)
    assert "gone.bin" in missing["error"]["message"]
    bare = answer("bench", str(model), "--component", "det", code=2)
    assert "leave them out" in bare["error"]["message"]
    node = onnx_models.ep_context(ep_cache_context="b.bin", embed_mode=0, main_context=1)
    model.write_bytes(onnx_models.raw(onnx_models.model(nodes=[node])))
    (tmp_path / "b.bin").write_bytes(b"blob")
    compiled = answer("bench", str(model), code=2)
    assert "--ep" in compiled["error"]["message"]
    done = run_command("bench", str(model), "--dim", "batch")
    assert done.returncode == 2
    assert "isn't KEY=VALUE" in done.stderr
