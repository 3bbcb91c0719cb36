"""The distribution: bounds, locks, and what an import loads."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sealcar._version import __version__
from sealcar.v1 import package_store_pb2, package_store_pb2_grpc

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
DEPENDENCIES = PROJECT["dependencies"]


def lower_bound(distribution: str) -> str:
    line = next(line for line in DEPENDENCIES if re.match(rf"{distribution}[><=]", line))
    found = re.search(r">=([0-9.]+)", line)
    assert found
    return found[1]


def test_the_release_is_that_of_the_distribution() -> None:
    assert __version__ == PROJECT["version"]


def test_the_lower_bounds_are_those_that_the_generated_code_demands() -> None:
    messages = Path(package_store_pb2.__file__).read_text()
    made_for = re.search(r"# Protobuf Python Version: ([0-9.]+)", messages)
    assert made_for
    assert lower_bound("protobuf") == made_for[1]
    assert lower_bound("grpcio") == package_store_pb2_grpc.GRPC_GENERATED_VERSION
    assert lower_bound("grpcio-status") == package_store_pb2_grpc.GRPC_GENERATED_VERSION


LOCKS = sorted(ROOT.joinpath("requirements").glob("*.txt"), key=lambda file: file.name)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_holds_no_address_and_a_hash_for_everything(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    pinned = re.findall(r"^[a-z0-9][\w.-]*==", text, re.MULTILINE)
    assert len(re.findall(r"==\S+[^\n]*\\\n    --hash=sha256:", text)) == len(pinned) > 0
    assert lock.stem not in {"ort130", "ort132"} or len(pinned) > 50


def test_the_locked_backend_is_the_one_that_builds_everywhere_else() -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())
    assert set(project["build-system"]["requires"]) <= set(project["dependency-groups"]["build"])


@pytest.mark.parametrize("module", ["sealcar", "sealcar.modelpackage", "sealcar.cli.main"])
def test_an_import_loads_no_transport_and_no_runtime(module: str) -> None:
    program = (
        f"import sys, {module}; "
        "print(sorted({name.split('.')[0] for name in sys.modules}"
        " & {'grpc', 'onnxruntime', 'numpy', 'cryptography', 'sealcar_server'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
