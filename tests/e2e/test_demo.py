"""`sealcar demo`, as a stranger runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from support import eps
from support.daemon import COMMAND, environment, run_command

from sealcar.demo.missing import model_of_magika
from sealcar.demo.rewiring import rewired
from sealcar.demo.searching import Search
from sealcar.ort import runtime

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def root() -> Iterator[Path]:
    """Give a directory whose path is short enough for sockets far below it."""
    with tempfile.TemporaryDirectory(prefix="d-") as directory:
        yield Path(directory)


@pytest.fixture
def place(root: Path) -> dict[str, str]:
    """Give an environment whose temporary files and caches lie below the root."""
    for name in ("tmp", "home"):
        root.joinpath(name).mkdir()
    return {
        "TMPDIR": str(root / "tmp"),
        "HOME": str(root / "home"),
        "XDG_CACHE_HOME": str(root / "home" / "cache"),
    }


def processes() -> list[str]:
    """Return the command lines of everything that runs."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append(entry.joinpath("cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


@pytest.mark.timeout(600)
def test_the_sealed_compiled_model_answers_as_the_plain_one_does(
    root: Path, place: dict[str, str]
) -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--json"],
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["equal"] is True
    assert len(found["predictions"]) >= 12
    assert len({each["label"] for each in found["predictions"]}) >= 10
    assert all(each["label"] == each["plain_label"] for each in found["predictions"])
    assert found["plaintext_hits"] == 0
    assert found["searched_bytes"] > found["blob_bytes"] > 1 << 20
    assert found["ort_version"] == runtime.onnxruntime().__version__
    assert found["callback_api"] == ("stable" if runtime.version() >= (1, 31) else "experimental")
    assert found["ep"] == "QNNExecutionProvider"
    assert found["read_gbps"] > 0
    assert found["write_gbps"] > 0
    # nothing is left: no file anywhere that could be written to, no process
    assert [path for path in root.rglob("*") if not path.is_dir()] == []
    assert not [line for line in processes() if str(root) in line]


OPENVINO = """
import os
os.environ["SEALCAR_SHIM_PLUGIN"] = {plugin!r}
def get_library_path(): return {shim!r}
def get_ep_name(): return "OpenVINOExecutionProvider"
"""


def test_it_runs_with_the_other_plugin_too(root: Path, place: dict[str, str]) -> None:
    # on processors that aren't Intel's the plugin finds its device only behind the tests' shim
    shim = eps.module("openvino").get_library_path()
    fake = root / "modules" / "onnxruntime_ep_openvino"
    fake.mkdir(parents=True)
    text = OPENVINO.format(plugin=os.environ["SEALCAR_SHIM_PLUGIN"], shim=shim)
    fake.joinpath("__init__.py").write_text(text)
    extra = {**place, "PYTHONPATH": str(fake.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_command("demo", "--ep", "openvino", "--json", **extra)
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["equal"] is True
    assert found["ep"] == "OpenVINOExecutionProvider"
    assert found["plaintext_hits"] == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_leaves_nothing_running(
    place: dict[str, str], how: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo"],
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout
        for line in process.stdout:
            if "Magika looks" in line:
                break
        mark = f" {process.pid} "
        assert len([line for line in processes() if "sealcar.demo" in line and mark in line]) >= 2
        process.send_signal(how)
        process.stdout.read()
        code = process.wait(60)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(how, -signal.SIGKILL)
    deadline = time.monotonic() + 30
    while [line for line in processes() if "sealcar.demo" in line and mark in line]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    if how is not signal.SIGKILL:
        assert list(Path(place["TMPDIR"]).iterdir()) == []


def test_the_directory_to_keep_must_be_new(tmp_path: Path) -> None:
    done = run_command("demo", "--keep", str(tmp_path))
    assert done.returncode == 1
    assert "is there already" in done.stderr


def test_the_search_finds_any_run_of_64_bytes_and_no_shorter_one(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    plaintext = random.bytes(10_000)
    search = Search([random.bytes(5_000), plaintext])
    file = tmp_path / "inner" / "file"
    file.parent.mkdir()
    for start in (0, 1, 31, 4_097, 9_936):
        for size, hit in ((64, True), (63, False)):
            run = plaintext[start : start + size]
            file.write_bytes(random.bytes(777 + start % 7) + run + random.bytes(333))
            hits, searched = search.hits(tmp_path)
            assert (hits > 0) is hit
            assert searched == file.stat().st_size
            known = Search([plaintext], [b"meant to be there: " + run])
            assert known.hits(tmp_path)[0] == 0


def test_the_model_made_fit_for_half_precision_is_the_same_function() -> None:
    source = model_of_magika().read_bytes()
    fit = rewired(source)
    assert fit != source
    onnx.checker.check_model(onnx.load_from_string(fit))
    files = np.random.default_rng(0).integers(0, 257, (4, 2048)).astype(np.int32)
    plain, other = (
        runtime.onnxruntime()
        .InferenceSession(model, providers=["CPUExecutionProvider"])
        .run(None, {"bytes": files})[0]
        for model in (source, fit)
    )
    assert np.allclose(plain, other, atol=1e-5)
