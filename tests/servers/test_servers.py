"""The examples of deploy/servers, as the servers themselves run them.

Triton's and KServe's own modules are stood in for by the few names that an example uses: neither
server comes from a package registry alone.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest
from support import flows, models
from support.daemon import Daemon, environment
from support.segment_readers import mapped_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FOLDER: Final = Path(__file__).parents[2] / "deploy" / "servers"
WORKERS: Final = 3
PATIENCE: Final = 90.0
MODEL: Final = 5 << 20  # bytes of the model and its weights, nearly
ROW: Final = models.sample_input()["x"]


class Served(NamedTuple):
    """A daemon with the package "ocr", and what its model answers."""

    daemon: Daemon
    want: NDArray[np.float32]

    def assert_answer(self, answer: object) -> None:
        flows.assert_equal_answers(np.array(answer, np.float32).reshape(self.want.shape), self.want)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("servers")
    # its distances' points alone are 2 MB: worth a segment
    whole = flows.leftover_model(centres=8192, seed=1)
    model, weights = flows.moved_out(whole)
    with Daemon(folder) as daemon:
        with daemon.connect() as client:
            flows.publish_model(client, folder / "s", "ocr", model=model, weights=weights)
        yield Served(daemon, flows.on_cpu(whole.SerializeToString(), models.sample_input()))


@pytest.fixture
def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def running(served: Served, *command: str) -> Iterator[None]:
    """Run a server in the examples' folder as long as the block runs."""
    path = f"{FOLDER}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    extra = {"SEALCAR_SOCKET": str(served.daemon.socket), "MODEL": "ocr", "PYTHONPATH": path}
    with subprocess.Popen([sys.executable, *command], env=environment(extra)) as process:
        try:
            yield
        finally:
            process.terminate()


def ask(url: str) -> dict[str, Any]:
    """Send the row, once the server is there."""
    request = urllib.request.Request(url, json.dumps(ROW[0].tolist()).encode())  # noqa: S310  (our own server)
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


def answers_of_all(url: str, workers: int) -> dict[int, object]:
    """Ask until every worker has answered; return the answers by process."""
    answers: dict[int, object] = {}
    deadline = time.monotonic() + PATIENCE
    while len(answers) < workers:
        assert time.monotonic() < deadline, answers.keys()
        answer = ask(url)
        answers[answer["pid"]] = answer["y"]
    return answers


def needs(*modules: str) -> None:
    missing = [each for each in modules if find_spec(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} isn't installed; `make servers` installs it")


def test_workers_of_uvicorn_share_one_segment(served: Served, port: int) -> None:
    needs("fastapi", "uvicorn")
    settings = ("--factory", "fastapi_app:make", "--port", str(port), "--workers", str(WORKERS))
    with running(served, "-m", "uvicorn", *settings):
        answers = answers_of_all(f"http://127.0.0.1:{port}/infer", WORKERS)
        segments = {mapped_by(pid).inodes for pid in answers}
        for answer in answers.values():
            served.assert_answer(answer)
    (shared,) = segments
    assert len(shared) == 1


def test_children_of_gunicorn_answer_with_what_the_parent_loaded(served: Served, port: int) -> None:
    needs("gunicorn")
    settings = ("--preload", "--workers", str(WORKERS), "--bind", f"127.0.0.1:{port}")
    before = flows.decrypted(served.daemon)
    with running(served, "-m", "gunicorn", *settings, "gunicorn_app:application"):
        answers = answers_of_all(f"http://127.0.0.1:{port}/", WORKERS)
        for answer in answers.values():
            served.assert_answer(answer)
        # the model was read once, for all of them
        read = flows.decrypted(served.daemon) - before
    assert 0 < read < 2 * MODEL


def test_replicas_of_ray_serve_answer(served: Served, port: int) -> None:
    needs("ray")
    program = (
        "import time, ray_app; from ray import serve; "
        f"serve.start(http_options={{'host': '127.0.0.1', 'port': {port}}}); "
        "serve.run(ray_app.app); time.sleep(600)"
    )
    with running(served, "-c", program):
        for answer in answers_of_all(f"http://127.0.0.1:{port}/", 2).values():
            served.assert_answer(answer)


def loaded_example(name: str, path: Path, monkeypatch: pytest.MonkeyPatch, **stub: Any) -> Any:  # noqa: ANN401  (a module)
    """Import an example beside a stand-in for the server's module."""
    ((module, members),) = stub.items()
    stand_in = ModuleType(module)
    vars(stand_in).update(members)
    monkeypatch.setitem(sys.modules, module, stand_in)
    spec = spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_a_model_of_tritons_python_backend_answers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEALCAR_SOCKET", str(served.daemon.socket))
    inputs = {"x": SimpleNamespace(as_numpy=lambda: ROW)}
    utils = {
        "get_input_tensor_by_name": lambda _request, name: inputs[name],
        "Tensor": lambda name, value: (name, value),
        "InferenceResponse": dict,
    }
    path = FOLDER / "triton" / "ocr" / "1" / "model.py"
    example = loaded_example("model", path, monkeypatch, triton_python_backend_utils=utils)
    parameters = {"package": {"string_value": "ocr"}, "component": {"string_value": "main"}}
    model = example.TritonPythonModel()
    model.initialize({"model_config": json.dumps({"parameters": parameters})})
    for answer in model.execute([None, None]):
        served.assert_answer(answer["y"])
    model.finalize()


def test_a_predictor_of_kserve_answers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def __init__(self, name: str) -> None:
            self.name = name
            self.ready = False

    monkeypatch.setenv("SEALCAR_SOCKET", str(served.daemon.socket))
    path = FOLDER / "kserve_predictor.py"
    example = loaded_example("predictor", path, monkeypatch, kserve={"Model": Model})
    predictor = example.Predictor("ocr", "ocr")
    assert predictor.load()
    assert predictor.ready
    served.assert_answer(predictor.predict({"instances": ROW.tolist()})["predictions"])
