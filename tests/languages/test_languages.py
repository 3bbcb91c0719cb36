"""Clients generated from proto/ in other languages, against a real daemon: its socket, and TLS.

One lists, reads and writes; another gives a sealed model to the language's own binding of ONNX
Runtime. Each is built in .languages/ beside the project, from the lock files here and
whatever the language's own package manager has or fetches.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pytest
from support import flows, models, pages, tls
from support.daemon import Daemon, environment
from support.onnx_bytes import TINY
from support.payload_packages import publish, varied

from sealcar.ort import runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
BUF: Final = str(Path(sys.executable).parent / "buf")
# more than one message, and more than gRPC's 4 MiB a message
DATA: Final = varied((5 << 20) + 77)
ROW: Final = models.sample_input()
NEEDED: Final = {"go": ("go", "cc"), "java": ("mvn", "java"), "typescript": ("npm", "node")}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("languages")) as daemon:
        with daemon.connect() as client:
            publish(client, {"blob": DATA})
        yield daemon


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tls.Served]:
    made = tls.Served.make(tmp_path_factory.mktemp("elsewhere"))
    with made.daemon:
        with made.daemon.connect() as client:
            publish(client, {"blob": DATA})
        yield made


class Built(NamedTuple):
    """A language's programs: where they lie, and how each is started."""

    folder: Path
    client: list[str]
    infer: list[str]


def run(*command: str, folder: Path, data: str = "", env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=env, input=data, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def library() -> str:
    """Return the path of ONNX Runtime's shared library, for bindings that bring none."""
    home = Path(str(runtime.onnxruntime().__file__)).parent
    (found,) = home.glob("capi/libonnxruntime.so.*")
    return str(found)


def generate(folder: Path) -> None:
    run(BUF, "generate", str(ROOT / "proto"), "-o", ".", folder=folder)


def go(folder: Path) -> Built:
    generate(folder)
    for name in ("c/sealcar.c", "c/sealcar.h", "sealcar/native/abi.h"):
        shutil.copy(ROOT / "client" / name, folder / "sealed")
    run("go", "build", "-o", "built/", "./...", folder=folder)
    return Built(folder, ["built/client"], ["built/infer"])


def typescript(folder: Path) -> Built:
    # what packages run when they are installed isn't needed, and fetches what no lock file names
    run("npm", "ci", "--silent", "--ignore-scripts", folder=folder)
    generate(folder)
    run("node_modules/.bin/tsc", folder=folder)
    return Built(folder, ["node", "built/main.js"], ["node", "built/infer.js"])


def java(folder: Path) -> Built:
    run("mvn", "-q", "-B", f"-Dprotos={ROOT / 'proto'}", "compile", folder=folder)
    copied = "dependency:copy-dependencies"
    run("mvn", "-q", "-B", copied, "-DoutputDirectory=target/lib", folder=folder)
    start = ["java", "-cp", "target/classes:target/lib/*"]
    return Built(folder, [*start, "client.Main"], [*start, "client.Infer"])


BUILD: Final = {"go": go, "java": java, "typescript": typescript}


@cache
def built(language: str) -> Built:
    missing = [each for each in NEEDED[language] if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} isn't installed")
    folder = ROOT / ".languages" / language
    shutil.copytree(HERE / language, folder, dirs_exist_ok=True)
    return BUILD[language](folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILD)
def test_a_client_lists_reads_and_writes(language: str, served: Daemon) -> None:
    socket = str(served.socket / "grpc.sock")
    assert_lists_reads_and_writes(language, served, socket, environment())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILD)
def test_a_client_on_another_machine_does_so_over_mutual_tls(
    language: str, elsewhere: tls.Served
) -> None:
    files = elsewhere.files(tls.OPERATOR, f"{language}-caller")
    names = {"ca": "CA", "certificate": "CERT", "key": "KEY"}
    env = environment({f"SEALCAR_TLS_{names[key]}": str(path) for key, path in files.items()})
    assert_lists_reads_and_writes(language, elsewhere.daemon, elsewhere.address, env)


def assert_lists_reads_and_writes(
    language: str, served: Daemon, target: str, env: dict[str, str]
) -> None:
    folder, command, _ = built(language)
    arguments = (target, "m", "c", "v", "blob", f"from-{language}")
    answer = json.loads(run(*command, *arguments, folder=folder, env=env).splitlines()[-1])
    assert "m" in answer["packages"]
    assert answer["sha256"] == hashlib.sha256(DATA).hexdigest()
    with served.connect() as client:
        written = client.scope("m", "c", f"from-{language}")
        assert written.read("blob") == DATA
        assert written.read("model.onnx") == TINY
        assert written.generation == answer["generation"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILD)
def test_a_refusal_ends_a_client_with_the_daemons_words(language: str, served: Daemon) -> None:
    folder, command, _ = built(language)
    socket = str(served.socket / "grpc.sock")
    done = subprocess.run(
        [*command, socket, "m", "c", "none", "blob", "new"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "variant 'none' doesn't exist" in done.stderr


@pytest.fixture(scope="module")
def want(served: Daemon, tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float32]:
    """Import a model as the page says; return what it answers."""
    folder = tmp_path_factory.mktemp("page")
    model = folder / "detector.onnx"
    model.write_bytes(flows.leftover_model(seed=flows.fresh_seed()).SerializeToString())
    page = ROOT.joinpath("docs", "languages.md").read_text()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = environment({"SEALCAR_SOCKET": str(served.socket), "PATH": path})
    for step in pages.steps(page, "console"):
        said = subprocess.run(
            ["/bin/sh", "-c", step.command],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        assert not step.missing(said.stdout)
    answer: NDArray[np.float32] = flows.on_cpu(model.read_bytes(), ROW)
    return answer


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILD)
def test_the_languages_binding_of_the_runtime_answers_with_a_sealed_model(
    language: str, served: Daemon, want: NDArray[np.float32], tmp_path: Path
) -> None:
    folder, _, command = built(language)
    # Go calls the C client, which finds the data socket in the directory
    socket = served.socket if language == "go" else served.socket / "grpc.sock"
    row = json.dumps(ROW["x"][0].tolist())
    command = [*command, str(socket), "ocr", "main", "onnx"]
    env = environment({"XDG_CACHE_HOME": str(tmp_path), "ORT_LIBRARY": library()})
    env.pop(runtime.SWITCH, None)
    said = run(*command, folder=folder, data=row, env=env)
    answer = np.array(json.loads(said.splitlines()[-1]), np.float32)
    flows.assert_equal_answers(answer.reshape(want.shape), want)
    # nor has the runtime kept its events on the disk
    assert list(tmp_path.rglob("*.db")) == []
