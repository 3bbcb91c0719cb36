"""The example of Triton's Python backend: in Triton itself, out of a wheel, and beside a stand-in.

The stand-in has the few names of Triton's module that the example uses, and runs everywhere.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest
from support.inference_servers import (
    EXAMPLES,
    ROOT,
    ROW,
    ask,
    children,
    needs,
    running,
    server_environment,
)
from support.segment_readers import mapped_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.inference_servers import Served

INSTANCES: Final = 2
HOME: Final = ROOT / ".servers" / "triton"
PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE: Final = HOME / "lib" / PYTHON / "site-packages"
SERVER: Final = SITE / "pytriton" / "tritonserver"


def backends(folder: Path) -> Path:
    """Lay the Python backend out with the program for this Python, as Triton looks for it."""
    version = PYTHON.removeprefix("python")
    parts = [
        *(SERVER / "backends" / "python").iterdir(),
        SERVER / "python_backend_stubs" / version / "triton_python_backend_stub",
    ]
    home = folder / "backends" / "python"
    home.mkdir(parents=True)
    for part in parts:
        home.joinpath(part.name).symlink_to(part)
    return home.parent


def triton_environment(served: Served) -> Mapping[str, str]:
    """Return an environment whose Python is Triton's: its backend takes the first of the path."""
    shared = sysconfig.get_config_var("LIBDIR")
    if not Path(shared, str(sysconfig.get_config_var("INSTSONAME"))).exists():
        pytest.skip("this Python has no shared library, which Triton's backend embeds")
    paths = {
        "PATH": f"{HOME / 'bin'}:/usr/bin:/bin",
        "LD_LIBRARY_PATH": f"{SITE / 'nvidia_pytriton.libs'}:{shared}",
    }
    return server_environment(served, SITE, **paths)


def test_instances_in_triton_share_one_segment(served: Served, port: int, tmp_path: Path) -> None:
    needs("pytriton", libraries=SITE)
    command = [
        str(SERVER / "bin" / "tritonserver"),
        f"--model-repository={EXAMPLES / 'triton'}",
        f"--backend-directory={backends(tmp_path)}",
        "--http-address=127.0.0.1",
        f"--http-port={port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    ]
    rows = {"name": "x", "shape": [*ROW.shape], "datatype": "FP32", "data": ROW[0].tolist()}
    with running(served, *command, env=triton_environment(served)) as triton:
        answer = ask(f"http://127.0.0.1:{port}/v2/models/ocr/infer", {"inputs": [rows]})
        instances = children(triton.pid)
        mapped = {mapped_by(pid).inodes for pid in instances}
    served.assert_answer(answer["outputs"][0]["data"])
    assert len(instances) == INSTANCES
    (shared,) = mapped
    assert len(shared) == 1


def test_the_model_answers_each_of_several_requests(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEALCAR_SOCKET", str(served.daemon.socket))
    inputs = {"x": SimpleNamespace(as_numpy=lambda: ROW)}
    stand_in = ModuleType("triton_python_backend_utils")
    vars(stand_in).update(
        get_input_tensor_by_name=lambda _request, name: inputs[name],
        Tensor=lambda name, value: (name, value),
        InferenceResponse=dict,
    )
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    spec = spec_from_file_location("model", EXAMPLES / "triton" / "ocr" / "1" / "model.py")
    assert spec
    assert spec.loader
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    parameters = {"package": {"string_value": "ocr"}, "component": {"string_value": "main"}}
    model = example.TritonPythonModel()
    model.initialize({"model_config": json.dumps({"parameters": parameters})})
    answers = model.execute([None, None])
    model.finalize()
    assert len(answers) == 2
    for answer in answers:
        served.assert_answer(answer["y"])
