"""The Dockerfile and what runs its images: each step by hand, each process in its image's root.

There is no container engine: a root made by debootstrap stands in for the image of a registry, and
unshare and chroot for a container.
"""

from __future__ import annotations

import json
import signal
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import yaml
from support import clean_roots, flows, models
from support.clean_roots import Box
from support.compositions import Composition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.images import Builder, Image

ROOT: Final = Path(__file__).parents[2]
COMPOSE: Final = ROOT / "deploy" / "compose.yaml"
TARGETS: Final = {"daemon": "10001:10001", "client": "1000:1000"}
# what builds programs, or fetches them
TOOLS: Final = ("*cc", "*cc-[0-9]*", "*cpp*", "ld", "as", "make", "pip*", "git", "curl", "wget")

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(clean_roots.missing()), reason=clean_roots.missing()),
]


@pytest.fixture(params=TARGETS)
def image(builder: Builder, request: pytest.FixtureRequest) -> Image:
    return builder.build(request.param)


def installed(image: Image) -> dict[str, str]:
    """Return what Python packages an image has of its own, with their versions."""
    program = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
    )
    said = Box(image.root, image.environment, user=image.ids()).run("python", "-c", program)
    found: dict[str, str] = json.loads(said)
    return found


def test_an_image_runs_as_its_own_numeric_user(builder: Builder) -> None:
    assert {name: builder.build(name).user for name in TARGETS} == TARGETS
    assert {builder.build(name).stop for name in ("daemon",)} == {"SIGTERM"}


def tools(image: Image) -> set[str]:
    """Return the names of programs in an image that build others, or fetch them."""
    folders = {*image.environment["PATH"].split(":"), "/build/bin"}
    return {
        file.name
        for folder in folders
        for tool in TOOLS
        for file in (image.root / folder[1:]).glob(tool)
    }


def test_an_image_holds_no_compiler_and_nothing_that_fetches_one(
    builder: Builder, image: Image
) -> None:
    assert not tools(image)
    assert {"gcc", "pip"} <= tools(builder.build("build"))
    # setuid programs are the base's
    own = image.root / "opt"
    assert not [
        file for file in own.rglob("*") if not file.is_symlink() and file.stat().st_mode & 0o6000
    ]


def test_what_an_image_runs_can_be_changed_by_root_alone(image: Image) -> None:
    files = [file for file in (image.root / "opt").rglob("*") if not file.is_symlink()]
    assert len(files) > 1000
    assert {file.stat().st_uid for file in files} == {0}
    assert not [file for file in files if file.stat().st_mode & 0o022]


def test_an_image_says_what_it_is(image: Image) -> None:
    said = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in image.labels.items()
    }
    assert {"title", "description", "licenses", "version", "revision"} <= said.keys()
    assert installed(image)["sealcar"] == said["version"]


def test_the_list_of_contents_names_what_is_installed(builder: Builder) -> None:
    (file,) = builder.build("sbom").root.iterdir()
    listed = json.loads(file.read_text())
    assert listed["bomFormat"] == "CycloneDX"
    found = {each["name"].lower(): each["version"] for each in listed["components"]}
    main = listed["metadata"]["component"]
    found |= {main["name"]: main["version"]}
    daemon = builder.build("daemon")
    assert found == installed(daemon)
    inside = daemon.root / "opt/sealcar/share/sbom" / file.name
    assert inside.read_bytes() == file.read_bytes()


def test_the_daemon_s_image_has_every_key_service_and_no_runtime(builder: Builder) -> None:
    found = installed(builder.build("daemon"))
    assert found.keys() >= {"boto3", "hvac", "python-pkcs11", "cryptography"}
    assert not found.keys() & {"onnxruntime", "numpy"}
    assert "cryptography" not in installed(builder.build("client"))


@pytest.fixture
def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def composition(builder: Builder, open_path: Path, port: int) -> Iterator[Composition]:
    described = yaml.safe_load(COMPOSE.read_text())
    with Composition(described, builder, open_path, port) as made:
        yield made


def test_a_laptop_s_application_answers_with_a_sealed_model(
    composition: Composition, open_path: Path, port: int
) -> None:
    whole = flows.leftover_model(seed=1).SerializeToString()
    file = open_path / "ocr.onnx"
    file.write_bytes(whole)
    composition.run("setup")
    # once more is no harm
    composition.run("setup")
    daemon = composition.start("sealcar")
    composition.wait_until_healthy("sealcar")
    mounted = open_path / "model"
    mounted.mkdir()
    file.rename(mounted / "ocr.onnx")
    said = composition.run(
        "publisher", "import", "/mnt/ocr.onnx", "--name", "ocr", mounts=[(mounted, "/mnt", "ro")]
    )
    assert "ocr" in said
    application = composition.start("application")
    composition.wait_until_healthy("application")
    row = models.sample_input()["x"]
    answer = _asked(port, row.reshape(-1).tolist())
    flows.assert_equal_answers(
        np.array(answer["y"], np.float32).reshape(1, -1), flows.on_cpu(whole, {"x": row})
    )
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    # what is loaded goes on
    assert _asked(port, row.reshape(-1).tolist())["y"] == answer["y"]
    assert application.poll() is None


def _asked(port: int, row: list[float]) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/infer", json.dumps(row), {"Content-Type": "application/json"})
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer
