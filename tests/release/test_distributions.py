"""What `make dist` made is what a release publishes: whole, for old Linux too, installable."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / os.environ.get("DIST", "dist")
# what was built of
COMMIT: Final = os.environ.get("COMMIT", "HEAD")
UV: Final = str(ROOT / ".uv" / "bin" / "uv")
PROJECT: Final = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
MACHINES: Final = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
GLIBC: Final = (2, 28)
EXTRAS: Final = ("server", "cli", "ort", "pkcs11", "aws", "vault", "otel", "s3", "oci")
TOOLS: Final = ("hypothesis", "onnx", "pytest", "pytest-timeout", "trustme")
# from a client's first byte to a session of ONNX Runtime
PATHS: Final = (
    "tests/integration/test_cli_catalogue.py",
    "tests/integration/test_client_reading.py",
    "tests/e2e/test_load_shared_initializers.py",
)

pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, folder: Path = ROOT, into: Path | None = None) -> str:
    """Run a command; uv's are about the environment `into`."""
    extra = {} if into is None else {"VIRTUAL_ENV": str(into)}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **extra},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def wheel(machine: str) -> Path:
    (found,) = DIST.glob(f"sealcar-{PROJECT['version']}-py3-none-manylinux_*_{machine}.whl")
    return found


def source() -> Path:
    return DIST / f"sealcar-{PROJECT['version']}.tar.gz"


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    name = request.param
    assert isinstance(name, str)
    return name


def test_there_is_nothing_but_sources_wheels_and_a_list_of_contents() -> None:
    named = {source().name, "sealcar.cdx.json", *(wheel(machine).name for machine in MACHINES)}
    assert {file.name for file in DIST.iterdir()} == named


def test_a_wheel_says_how_old_a_linux_may_be(machine: str) -> None:
    found = re.search(r"manylinux_(\d+)_(\d+)_", wheel(machine).name)
    assert found
    assert (int(found[1]), int(found[2])) <= GLIBC


def test_a_wheel_s_library_is_the_machine_s_and_asks_for_no_newer_glibc(
    machine: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel(machine)) as archive:
        library = archive.extract("sealcar/native/libsealcar_ort.so", tmp_path)
    told = run("readelf", "--wide", "--file-header", "--version-info", "--dynamic", library)
    assert MACHINES[machine] in told
    versions = {
        tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", told)
    }
    assert max(versions) <= GLIBC
    # the C library and its linker alone, nothing of a builder's folders, nothing looked up late
    needed = {name.split(".")[0] for name in re.findall(r"\(NEEDED\).*\[(.*)\]", told)}
    assert {name for name in needed if "ld-linux" not in name} <= {"libc", "libdl", "libpthread"}
    assert "RUNPATH" not in told
    assert "RPATH" not in told
    assert "BIND_NOW" in told


def test_a_wheel_carries_what_is_imported_and_no_more(machine: str) -> None:
    with zipfile.ZipFile(wheel(machine)) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"sealcar-{PROJECT['version']}.dist-info/METADATA").decode()
    code = {name.partition("/")[0] for name in names if ".d" not in name.partition("/")[0]}
    assert code == {"sealcar", "sealcar_server"}
    protos = {file.stem for file in ROOT.glob("proto/sealcar/v1/*.proto")}
    made = {f"sealcar/v1/{proto}_pb2{end}" for proto in protos for end in (".py", ".pyi")}
    assert names >= made | {"sealcar/py.typed", "sealcar_server/py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".c", ".h", ".proto", ".pyc"))]
    for line in (f"Version: {PROJECT['version']}", "License-Expression: Apache-2.0"):
        assert line in metadata.splitlines()


def test_both_wheels_hold_the_same_but_for_the_library() -> None:
    def contents(machine: str) -> dict[str, str]:
        with zipfile.ZipFile(wheel(machine)) as archive:
            own = [name for name in archive.namelist() if ".dist-info" not in name]
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in own}

    first, second = (contents(machine) for machine in MACHINES)
    assert {name for name in first | second if first.get(name) != second.get(name)} == {
        "sealcar/native/libsealcar_ort.so"
    }


def test_the_sources_hold_nothing_that_a_build_makes() -> None:
    with tarfile.open(source()) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert not [name for name in names if "_pb2" in name or name.endswith((".so", ".pyc"))]
    assert {"LICENSE", "README.md", "CHANGELOG.md", "hatch_build.py", "pyproject.toml"} <= names
    kept = {name for name in names if name.startswith(("proto/", "client/", "server/"))}
    listed = run("git", "ls-tree", "-r", "--name-only", COMMIT, "proto", "client", "server").split()
    assert set(listed) <= kept
    # some installers take no archive with such a name
    assert not [name for name in names if name.endswith((" ", "."))]


def test_a_second_build_of_the_sources_gives_the_same_bytes(tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    again.joinpath(source().name).write_bytes(source().read_bytes())
    run("make", "--old-file=.release/.made", "dist-x86_64", f"DIST={again}")
    (made,) = again.glob("*.whl")
    assert made.read_bytes() == wheel("x86_64").read_bytes()


def test_the_list_of_contents_names_every_locked_dependency_with_its_hashes() -> None:
    listed = json.loads(DIST.joinpath("sealcar.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    main = listed["metadata"]["component"]
    assert (main["name"], main["version"]) == ("sealcar", PROJECT["version"])
    locked = ROOT.joinpath("requirements", "image.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", locked, re.MULTILINE))
    assert {each["name"]: each["version"] for each in listed["components"]} == pinned
    hashes = {
        found["content"]
        for each in listed["components"]
        for reference in each["externalReferences"]
        for found in reference.get("hashes", ())
    }
    assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", locked))


def interpreter(version: str) -> str:
    """Return a Python of that version, or nothing."""
    name = f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    others = root.glob(f"versions/{version}.*/bin/{name}")
    for found in filter(None, (shutil.which(name), *map(str, others))):
        # one of pyenv's own stands for versions that it was not told to use, too
        if subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return ""


def try_out(folder: Path, *paths: str) -> None:
    """Have tests run in an environment: the committed ones, on what is installed there."""
    tree = folder / "committed"
    tree.mkdir()
    archive = folder / "committed.tar"
    run("git", "archive", "--output", archive, COMMIT)
    run("tar", "--extract", "--file", archive, "--directory", tree)
    held = folder / "held.txt"
    held.write_text(
        re.sub(r"^sealcar @.*\n", "", run(UV, "pip", "freeze", into=folder), flags=re.MULTILINE)
    )
    run(UV, "pip", "install", "--quiet", "--constraint", held, *TOOLS, into=folder)
    python = folder / "bin" / "python"
    told = "import sealcar, sealcar_server as server; print(sealcar.__file__, server.__file__)"
    assert run(python, "-c", told, folder=tree).count("site-packages") == 2
    said = run(python, "-m", "pytest", "-q", *paths, folder=tree)
    assert re.search(r"\d+ passed", said), said


@pytest.mark.parametrize("kind", ["wheel", "source"])
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_it_installs_into_a_fresh_environment_and_serves(
    kind: str, version: str, tmp_path: Path
) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"needs Python {version}")
    if kind == "source" and not version.endswith(f".{sys.version_info.minor}"):
        pytest.skip("one build of the sources is enough")
    artifact = wheel(platform.machine()) if kind == "wheel" else source()
    folder = tmp_path / "fresh"
    run(UV, "venv", "--quiet", "--python", python, folder)
    extras = ",".join(EXTRAS)
    run(UV, "pip", "install", "--quiet", f"sealcar[{extras}] @ {artifact.as_uri()}", into=folder)
    run(UV, "pip", "check", "--quiet", into=folder)
    try_out(folder, *PATHS)


def test_it_works_with_the_oldest_dependencies_that_it_allows(tmp_path: Path) -> None:
    folder = tmp_path / "oldest"
    # an older interpreter has wheels of them all
    run(UV, "venv", "--quiet", "--python", interpreter("3.11"), folder)
    chosen = [part for extra in EXTRAS for part in ("--extra", extra)]
    listed = tmp_path / "oldest.txt"
    oldest = ("--resolution", "lowest-direct", "--python", folder / "bin" / "python")
    run(UV, "pip", "compile", "--quiet", "pyproject.toml", *chosen, *oldest, "-o", listed)
    run(UV, "pip", "install", "--quiet", "--requirements", listed, into=folder)
    run(UV, "pip", "install", "--quiet", "--no-deps", wheel(platform.machine()), into=folder)
    run(UV, "pip", "check", "--quiet", into=folder)
    try_out(folder, "tests/unit", "tests/integration/test_tls_callers.py", *PATHS)
