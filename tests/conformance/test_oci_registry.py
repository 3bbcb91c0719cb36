"""Sealed packages through a real registry: the CNCF's, with TLS, a password and its own rules."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import onnxruntime as ort
import oras.layout
import oras.provider
import pytest
from support import models, oci_registry, pages
from support.daemon import COMMAND, Daemon, answer, environment, run_command
from support.oci_registry import PASSWORD, USER, OciRegistry
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage, varied
from support.two_sides import CUSTOMER, RIGHTS, two_sides

import sealcar.ort
from sealcar import oci, publish
from sealcar.errors import AlreadyExistsError, DeniedError, UnavailableError
from sealcar.exports import Recipient
from sealcar.oci import Access, Reference, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = "ocr"
SECRET: Final = varied((3 << 20) + 17)
PAYLOADS: Final = (
    PlannedBytes("model.onnx", "model", TINY),
    PlannedBytes("deep/er/weights", "other", SECRET),
    PlannedBytes("empty", "other", b""),
)
WANTED: Final = Wanted(PACKAGE, recipient=Recipient(CUSTOMER))
OPERATIONS: Final = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OciRegistry]:
    if reason := oci_registry.missing():
        pytest.skip(reason)
    with oci_registry.oci_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    with two_sides(tmp_path_factory.mktemp("sides")) as both:
        with both[0].connect() as client:
            client.catalogue.import_(PlannedPackage(PAYLOADS, PACKAGE))
        yield both


def pushed(
    daemon: Daemon, registry: OciRegistry, place: str, wanted: Wanted = WANTED, other: str = ""
) -> oci.Pushed:
    reference = Reference.parse(f"{registry.host}/{place}")
    with daemon.connect() as client:
        return oci.push(client.catalogue, wanted, reference, access=registry.access, other=other)


def pulled(
    daemon: Daemon, registry: OciRegistry, place: str, name: str | None = None
) -> oci.Pulled:
    reference = Reference.parse(f"{registry.host}/{place}")
    with daemon.connect() as client:
        return oci.pull(client.catalogue, reference, access=registry.access, name=name)


def read(daemon: Daemon, name: str) -> bytes:
    with (
        daemon.connect() as client,
        client.scope(name, COMPONENT, VARIANT).reader("deep/er/weights") as reader,
    ):
        return bytes(reader.read())


def manifest(registry: OciRegistry, digest: str) -> dict[str, object]:
    value = json.loads(registry.blobs()[digest].read_bytes())
    assert isinstance(value, dict)
    return value


def test_a_package_goes_from_vendor_to_customer_who_share_no_key(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    vendor, customer = sides
    sent = pushed(vendor, registry, "for-them/ocr:1")
    assert (sent.layers, sent.uploaded, sent.generation) == (3, 3, 1)
    came = pulled(customer, registry, "for-them/ocr:1", "bought")
    assert (came.name, came.digest, came.payloads) == ("bought", sent.digest, 3)
    assert read(customer, "bought") == SECRET
    with customer.connect() as client:
        assert client.catalogue.verify("bought").payloads == 3
    with pytest.raises(AlreadyExistsError):
        pulled(customer, registry, "for-them/ocr:1", "bought")


def test_a_model_that_was_pulled_is_loaded_and_infers_as_the_plain_one(
    registry: OciRegistry, sides: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    model = models.whole_model()
    file = tmp_path / "detector.onnx"
    file.write_bytes(model)
    vendor, customer = sides
    with vendor.connect() as client, publish.plan(file) as plan:
        client.catalogue.import_(plan)
    pushed(vendor, registry, "detector:1", Wanted("detector", recipient=Recipient(CUSTOMER)))
    pulled(customer, registry, "detector:1")
    given = models.sample_input()
    plain = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, given)
    with customer.connect() as client:
        sealed = sealcar.ort.load(client, "detector").run(None, given)
    assert len(plain) == len(sealed) > 0
    assert all(np.array_equal(*each) for each in zip(plain, sealed, strict=True))


def test_what_a_registry_holds_is_ciphertext_in_one_layer_a_payload(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    sent = pushed(sides[0], registry, "looked-at/ocr:1")
    found = manifest(registry, sent.digest)
    assert found["artifactType"] == "application/vnd.sealcar.package.v1"
    annotations = found["annotations"]
    assert annotations == {
        "org.opencontainers.image.title": PACKAGE,
        "org.opencontainers.image.version": "1",
        "sealcar.generation": "1",
    }
    layers, config = found["layers"], found["config"]
    assert isinstance(layers, list)
    assert isinstance(config, dict)
    assert config["mediaType"] == "application/vnd.sealcar.manifest.v1+json"
    assert (
        "sealcar"
        in json.loads(registry.blobs()[config["digest"]].read_text())["additional_metadata"]
    )
    assert {layer["mediaType"] for layer in layers} == {"application/vnd.sealcar.payload.v1"}
    paths = [layer["annotations"]["org.opencontainers.image.title"] for layer in layers]
    assert paths == sorted(f"{COMPONENT}/{VARIANT}/{each.name}" for each in PAYLOADS)
    store = sides[0].store / PACKAGE / "1" / "g" / "1"
    for layer, path in zip(layers, paths, strict=True):
        assert registry.blobs()[layer["digest"]].read_bytes() == (store / path).read_bytes()
    everything = b"".join(path.read_bytes() for path in registry.blobs().values())
    assert SECRET[4096:8192] not in everything
    assert TINY not in everything


def test_what_is_there_is_not_sent_again_and_the_digest_stays(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    own = Wanted(PACKAGE)
    first = pushed(sides[0], registry, "own/ocr:1", own)
    again = pushed(sides[0], registry, "own/ocr:again", own)
    assert (first.uploaded, first.present) == (3, 0)
    assert (again.uploaded, again.mounted, again.present, again.sent) == (0, 0, 3, 0)
    assert again.digest == first.digest
    for_them = pushed(sides[0], registry, "own/ocr:them")
    assert (for_them.sent, for_them.present) == (0, 3)
    assert for_them.digest != first.digest


def test_payloads_are_taken_from_another_repository_of_the_registry(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    pushed(sides[0], registry, "mounted/from:1")
    sent = pushed(sides[0], registry, "mounted/to:1", other="mounted/from")
    assert (sent.uploaded, sent.mounted, sent.sent) == (0, 3, 0)
    assert pulled(sides[1], registry, "mounted/to:1", "mounted").payloads == 3
    # one that has nothing of it is no hindrance
    assert pushed(sides[0], registry, "mounted/other:1", other="no/such").uploaded == 3


def test_a_digest_names_an_artifact_whatever_its_tag_names_by_now(
    registry: OciRegistry, sides: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    vendor, _ = sides
    pinned = pushed(vendor, registry, "pinned/ocr:1", Wanted(PACKAGE)).digest
    assert pushed(vendor, registry, "pinned/ocr:1").digest != pinned
    made = Daemon(tmp_path, init=("--key-uri", f"file:{vendor.folder / 'kek'}"))
    made.grant(os.geteuid(), rights=RIGHTS)
    with made as replica:
        came = pulled(replica, registry, f"pinned/ocr@{pinned}")
        assert (came.name, came.generation, came.digest) == (PACKAGE, 1, pinned)
        assert read(replica, PACKAGE) == SECRET


def test_another_tool_copies_an_artifact_and_its_digest_stays(
    registry: OciRegistry, sides: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    sent = pushed(sides[0], registry, "copied/from:1")
    other = oras.provider.Registry(registry.host, tls_verify=str(registry.ca), auth_backend="basic")
    other.auth.set_basic_auth(USER, PASSWORD)
    try:
        layout = oras.layout.layout.NewLayoutFromRegistry(
            str(tmp_path / "layout"), other, f"{registry.host}/copied/from:1"
        )
        layout.push_to_registry(other, f"{registry.host}/copied/to:2")
        # and one that takes the manifest apart, and writes it anew
        parsed = other.get_manifest(f"{registry.host}/copied/from:1")
        place = other.get_container(f"{registry.host}/copied/to:3")
        other.upload_manifest(parsed, place)
    finally:
        other.session.close()
    for tag in ("2", "3"):
        assert pulled(sides[1], registry, f"copied/to:{tag}", f"copied{tag}").digest == sent.digest
    assert read(sides[1], "copied2") == SECRET


def test_the_commands_do_what_the_page_shows(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    section = OPERATIONS.read_text().split("### Through a registry")[1].split("###")[0]
    (block,) = [each.text for each in pages.blocks(section) if each.language == "console"]
    lines = block.replace("registry.example", registry.host).replace("--sign ", "").splitlines()
    answers = []
    for line in lines:
        words = line.removeprefix("$ sealcar ").split()
        side = sides[1] if words[0] == "pull" else sides[0]
        answers.append(answer(*words, *registry.options, "--socket", str(side.socket)))
    models, theirs, bought = answers
    assert models["uploaded"] + models["present"] == 3
    assert theirs["uploaded"] == 0
    assert bought["name"] == "bought-ocr"
    assert bought["digest"] == theirs["digest"]


def test_a_person_is_told_the_digest(registry: OciRegistry, sides: tuple[Daemon, Daemon]) -> None:
    reference = f"{registry.host}/told/ocr:1"
    done = run_command(
        "push", PACKAGE, reference, *registry.options, SEALCAR_SOCKET=str(sides[0].socket)
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert re.fullmatch(
        r"pushed ocr@1, generation 1, to \S+: 3 payloads, \S+ MB; \d sent, .* in \S+ s", said[0]
    )
    assert re.fullmatch("sha256:[0-9a-f]{64}", said[1])


def docker_config(folder: Path, value: object) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "config.json"
    file.write_text(json.dumps(value))
    return file


def test_credentials_are_those_that_docker_login_left(
    registry: OciRegistry,
    sides: tuple[Daemon, Daemon],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    written = docker_config(tmp_path / "docker", {"auths": {registry.host: {"auth": auth}}})
    reference = Reference.parse(f"{registry.host}/kept/ocr:1")
    helper = tmp_path / "bin" / "docker-credential-of-tests"
    helper.parent.mkdir()
    told = json.dumps({"ServerURL": "", "Username": USER, "Secret": PASSWORD})
    helper.write_text(f"#!{sys.executable}\nprint({told!r})\n")
    helper.chmod(stat.S_IRWXU)
    helped = docker_config(tmp_path / "helped", {"credHelpers": {registry.host: "of-tests"}})
    with sides[0].connect() as client:

        def push(config: Path | None) -> oci.Pushed:
            access = Access(ca=registry.ca, config=config)
            return oci.push(client.catalogue, Wanted(PACKAGE), reference, access=access)

        assert push(written).layers == 3
        monkeypatch.setenv("DOCKER_CONFIG", str(written.parent))
        assert push(None).layers == 3
        monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
        assert push(helped).layers == 3
        with pytest.raises(DeniedError, match="answers 401"):
            push(docker_config(tmp_path / "empty", {}))


def test_a_wrong_password_is_refused_and_told_nobody(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    wrong = "not-that-password"
    command = [*COMMAND, "push", PACKAGE, f"{registry.host}/x:1", "--username", USER]
    done = subprocess.run(
        [*command, "--registry-ca", str(registry.ca), "--password-stdin", "--json"],
        input=f"{wrong}\n",
        env=environment({"SEALCAR_SOCKET": str(sides[0].socket)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(done.stdout)["error"]["kind"] == "DeniedError"
    assert done.returncode == 5
    assert wrong not in done.stdout + done.stderr


def test_a_registry_that_nobody_vouches_for_gets_no_credentials(
    registry: OciRegistry, sides: tuple[Daemon, Daemon]
) -> None:
    access = Access(username=USER, password=PASSWORD)
    reference = Reference.parse(f"{registry.host}/x:1")
    with sides[0].connect() as client, pytest.raises(UnavailableError, match="who it is"):
        oci.push(client.catalogue, Wanted(PACKAGE), reference, access=access)
