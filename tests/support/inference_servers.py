"""The examples of deploy/servers, run as the servers themselves run them, and what they answer.

The servers come beside the environment, in .servers/: theirs are other versions of what we use,
and the daemon and the test keep their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest
from support import flows, models
from support.daemon import Daemon, environment

from sealcar.ort import runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "deploy" / "servers"
# what `make servers` installs
LIBRARIES: Final = ROOT / ".servers" / "lib"
PACKAGE: Final = "ocr"
ROW: Final = models.sample_input()["x"]
PATIENCE: Final = 90.0
# none of them is to tell its makers that it runs, nor to ask a hub
_QUIET: Final = {
    "BENTOML_DO_NOT_TRACK": "True",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
}


class Served(NamedTuple):
    """A daemon with a package, what its model answers to `ROW`, and where servers may cache."""

    daemon: Daemon
    want: NDArray[np.float32]
    cache: Path

    def assert_answer(self, answer: object) -> None:
        flows.assert_equal_answers(np.array(answer, np.float32).reshape(self.want.shape), self.want)


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Run a daemon that has the package."""
    # its distances' points alone are 2 MB: worth a segment
    whole = flows.leftover_model(centres=8192, seed=1)
    model, weights = flows.moved_out(whole)
    with Daemon(folder) as daemon:
        with daemon.connect() as client:
            flows.publish_model(client, folder / "s", PACKAGE, model=model, weights=weights)
        want = flows.on_cpu(whole.SerializeToString(), models.sample_input())
        yield Served(daemon, want, folder / "cache")


def needs(*modules: str, libraries: Path = LIBRARIES, target: str = "servers") -> None:
    """Skip the test unless the servers' libraries have these."""
    missing = [each for each in modules if not (libraries / each).is_dir()]
    if missing:
        pytest.skip(f"{', '.join(missing)} isn't installed; `make {target}` installs it")


def server_environment(served: Served, libraries: Path = LIBRARIES, **extra: str) -> dict[str, str]:
    """Return what a server is started with; nobody switched ONNX Runtime's event database off."""
    path = os.pathsep.join((str(EXAMPLES), str(libraries), os.environ.get("PYTHONPATH", "")))
    ours = {
        "SEALCAR_SOCKET": str(served.daemon.socket),
        "MODEL": PACKAGE,
        "PYTHONPATH": path,
        "XDG_CACHE_HOME": str(served.cache),
    }
    found = environment({**_QUIET, **ours, **extra})
    return {key: value for key, value in found.items() if key != runtime.SWITCH}


def assert_no_events(served: Served) -> None:
    """Assert that no server has let ONNX Runtime write its events to the disk."""
    assert list(served.cache.rglob("onnxruntime.db")) == []


@contextmanager
def running(
    served: Served, *command: str, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server as long as the block runs: a Python program, unless `env` says otherwise."""
    program = [sys.executable, *command] if env is None else [*command]
    with subprocess.Popen(program, env=env or server_environment(served)) as process:
        try:
            yield process
        finally:
            process.terminate()
    assert_no_events(served)


def children(pid: int) -> list[int]:
    """Return the processes that a server has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")  # each thread's own
    return [int(each) for found in lists for each in found.read_text().split()]


def ask(url: str, question: object) -> dict[str, Any]:
    """Ask, once the server is there."""
    request = urllib.request.Request(url, json.dumps(question).encode())  # noqa: S310  (our own server)
    request.add_header("Content-Type", "application/json")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  (our own server)
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def answers_of_all(url: str, workers: int, question: object) -> dict[int, object]:
    """Ask until every worker has answered; return the answers by process."""
    answers: dict[int, object] = {}
    deadline = time.monotonic() + PATIENCE
    while len(answers) < workers:
        assert time.monotonic() < deadline, answers.keys()
        answer = ask(url, question)
        answers[answer["pid"]] = answer["y"]
    return answers
