"""Clients generated from proto/ in other languages, against a real daemon on its Unix socket.

Each is built in .languages/ beside the project, from the lock files here and
whatever the language's own package manager has or fetches.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon
from support.onnx_bytes import TINY
from support.payload_packages import publish, varied

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
BUF: Final = str(Path(sys.executable).parent / "buf")
# more than one message, and more than gRPC's 4 MiB a message
DATA: Final = varied((5 << 20) + 77)
NEEDED: Final = {"go": ("go",), "java": ("mvn", "java"), "typescript": ("npm", "node")}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("languages")) as daemon:
        with daemon.connect() as client:
            publish(client, {"blob": DATA})
        yield daemon


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def generate(folder: Path) -> None:
    run(BUF, "generate", str(ROOT / "proto"), "-o", ".", folder=folder)


def go(folder: Path) -> list[str]:
    generate(folder)
    run("go", "build", "-o", "client", ".", folder=folder)
    return ["./client"]


def typescript(folder: Path) -> list[str]:
    run("npm", "ci", "--silent", folder=folder)
    generate(folder)
    run("node_modules/.bin/tsc", folder=folder)
    return ["node", "built/main.js"]


def java(folder: Path) -> list[str]:
    run("mvn", "-q", "-B", f"-Dprotos={ROOT / 'proto'}", "compile", folder=folder)
    copied = "dependency:copy-dependencies"
    run("mvn", "-q", "-B", copied, "-DoutputDirectory=target/lib", folder=folder)
    return ["java", "-cp", "target/classes:target/lib/*", "client.Main"]


BUILD: Final = {"go": go, "java": java, "typescript": typescript}


@cache
def built(language: str) -> tuple[Path, list[str]]:
    missing = [each for each in NEEDED[language] if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} isn't installed")
    folder = ROOT / ".languages" / language
    shutil.copytree(HERE / language, folder, dirs_exist_ok=True)
    return folder, BUILD[language](folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILD)
def test_a_client_lists_reads_and_writes(language: str, served: Daemon) -> None:
    folder, command = built(language)
    socket = str(served.socket / "grpc.sock")
    arguments = (socket, "m", "c", "v", "blob", f"from-{language}")
    answer = json.loads(run(*command, *arguments, folder=folder).splitlines()[-1])
    assert answer["packages"] == ["m"]
    assert answer["sha256"] == hashlib.sha256(DATA).hexdigest()
    with served.connect() as client:
        written = client.scope("m", "c", f"from-{language}")
        assert written.read("blob") == DATA
        assert written.read("model.onnx") == TINY
        assert written.generation == answer["generation"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILD)
def test_a_refusal_ends_a_client_with_the_daemons_words(language: str, served: Daemon) -> None:
    folder, command = built(language)
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
