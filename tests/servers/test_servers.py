"""The examples of deploy/servers for servers in Python, in the servers themselves."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support import flows, pages
from support.inference_servers import (
    EXAMPLES,
    LIBRARIES,
    PATIENCE,
    ROOT,
    ROW,
    ask,
    children,
    needs,
    running,
    server_environment,
)
from support.inference_servers import answers_of_all as answers
from support.segment_readers import mapped_by

if TYPE_CHECKING:
    from support.inference_servers import Served

WORKERS: Final = 3
MODEL: Final = 5 << 20  # bytes of the model and its weights, nearly
NUMBERS: Final = ROW[0].tolist()


def assert_all_share_one_segment(served: Served, found: dict[int, object]) -> None:
    """Assert that every process's answer is right, and that they map the same one segment."""
    (shared,) = {mapped_by(pid).inodes for pid in found}
    assert len(shared) == 1
    for answer in found.values():
        served.assert_answer(answer)


def test_workers_of_uvicorn_share_one_segment(served: Served, port: int) -> None:
    needs("fastapi", "uvicorn")
    settings = ("--factory", "fastapi_app:make", "--port", str(port), "--workers", str(WORKERS))
    with running(served, "-m", "uvicorn", *settings):
        found = answers(f"http://127.0.0.1:{port}/infer", WORKERS, NUMBERS)
        assert_all_share_one_segment(served, found)


def test_a_reader_of_the_page_gets_an_answer(served: Served, port: int, tmp_path: Path) -> None:
    needs("fastapi", "uvicorn")
    page = ROOT.joinpath("docs", "servers.md").read_text().replace("8000", str(port))
    serve, query = pages.steps(page, "console")
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    tmp_path.joinpath("row.json").write_text(json.dumps(NUMBERS))
    path = f"{LIBRARIES / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = server_environment(served, PATH=path, MODEL="another")
    # the server in the shell's place: it ends after its workers
    shell = ["/bin/sh", "-c", f'cd "{tmp_path}" && exec env {serve.command}']
    asked = ["/bin/sh", "-c", f'cd "{tmp_path}" && {query.command}']
    with running(served, *shell, env=env):
        answer, deadline = "", time.monotonic() + PATIENCE
        while not answer and time.monotonic() < deadline:
            answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    assert not query.missing(answer)
    served.assert_answer(json.loads(answer)["y"])


def test_children_of_gunicorn_answer_with_what_the_parent_loaded(served: Served, port: int) -> None:
    needs("gunicorn")
    settings = ("--preload", "--workers", str(WORKERS), "--bind", f"127.0.0.1:{port}")
    before = flows.decrypted(served.daemon)
    with running(served, "-m", "gunicorn", *settings, "gunicorn_app:application"):
        found = answers(f"http://127.0.0.1:{port}/", WORKERS, NUMBERS)
        assert_all_share_one_segment(served, found)
        # the model was read once, for all of them
        read = flows.decrypted(served.daemon) - before
    assert 0 < read < 2 * MODEL


def test_replicas_of_ray_serve_share_one_segment(served: Served, port: int) -> None:
    needs("ray")
    program = (
        "import time, ray_app; from ray import serve; "
        f"serve.start(http_options={{'host': '127.0.0.1', 'port': {port}}}); "
        "serve.run(ray_app.app); time.sleep(600)"
    )
    with running(served, "-c", program):
        found = answers(f"http://127.0.0.1:{port}/", 2, NUMBERS)
        assert_all_share_one_segment(served, found)


def test_workers_of_bentoml_share_one_segment(served: Served, port: int) -> None:
    needs("bentoml")
    settings = ("--port", str(port), "--host", "127.0.0.1")
    with running(served, "-m", "bentoml", "serve", "bentoml_service:Ocr", *settings):
        found = answers(f"http://127.0.0.1:{port}/infer", 2, {"x": NUMBERS})
        assert_all_share_one_segment(served, found)


def test_a_predictor_of_kserve_answers_by_both_protocols_and_its_workers_share_one_segment(
    served: Served, port: int
) -> None:
    needs("kserve")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        other = str(sock.getsockname()[1])
    settings = ("--http_port", str(port), "--grpc_port", other, "--workers", "2")
    with running(served, "-m", "kserve_predictor", "--model_name", "ocr", *settings) as server:
        first = ask(f"http://127.0.0.1:{port}/v1/models/ocr:predict", {"instances": ROW.tolist()})
        served.assert_answer(first["predictions"])
        rows = {"name": "x", "shape": [*ROW.shape], "datatype": "FP32", "data": NUMBERS}
        second = ask(f"http://127.0.0.1:{port}/v2/models/ocr/infer", {"inputs": [rows]})
        served.assert_answer(second["outputs"][0]["data"])
        deadline, segments = time.monotonic() + PATIENCE, [frozenset[str]()]
        while len(segments) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
            mapped = [mapped_by(pid).inodes for pid in children(server.pid)]
            segments = [each for each in mapped if each]
        # the one who answers for their readiness has loaded it too
        assert segments == [mapped_by(server.pid).inodes] * 2
