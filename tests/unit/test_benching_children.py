"""Processes of a measurement that end at the worst moment: with plaintext in files in memory."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from sealcar.benching import children
from sealcar.benching.children import Child
from sealcar.benching.jobs import MEMORY, PREFIX, Job

_LOADER = """
import signal
import time
from pathlib import Path

from sealcar.benching import scratch


def slow(job, options, clock):
    with scratch.folder() as folder:
        if job.extra["deaf"]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(folder, "weights").write_bytes(b"plaintext")
        time.sleep(60)
"""
pytestmark = pytest.mark.skipif(not Path(MEMORY).is_dir(), reason=f"needs {MEMORY}")


@pytest.fixture
def loaders(tmp_path: Path) -> str:
    tmp_path.joinpath("slow_loader.py").write_text(_LOADER)
    return str(tmp_path)


def _left(child: Child) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):  # it may go while it is looked for
        return list(Path(MEMORY).glob(f"{PREFIX}{child.pid}-*/*"))
    return []


def _until(child: Child, *, there: bool) -> None:
    deadline = time.monotonic() + 30
    while bool(_left(child)) is not there:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _loads(loaders: str, *, deaf: bool) -> Child:
    child = Child(Job("slow_loader:slow", "", extra={"deaf": "yes" if deaf else ""}), loaders)
    child.prepare()
    child._say("go")
    _until(child, there=True)
    return child


@pytest.mark.parametrize("deaf", [False, True])
def test_an_interrupt_leaves_no_plaintext_in_memory_files(
    loaders: str, monkeypatch: pytest.MonkeyPatch, *, deaf: bool
) -> None:
    monkeypatch.setattr(children, "PATIENCE", 0.3 if deaf else 30.0)
    child = _loads(loaders, deaf=deaf)
    with pytest.raises(KeyboardInterrupt), child:
        raise KeyboardInterrupt
    assert _left(child) == []


def test_a_process_whose_parent_is_gone_takes_its_plaintext_along(loaders: str) -> None:
    with _loads(loaders, deaf=False) as child:
        os.kill(child.pid, signal.SIGTERM)  # what the kernel does then
        _until(child, there=False)
