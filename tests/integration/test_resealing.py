"""The commands that validate a package and seal an edited manifest, against a real daemon."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import COMMAND, Daemon, environment, run_command
from support.grpcdoor import grpc_door, package, refused
from support.onnx_bytes import model_around
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, PlannedBytes, PlannedPackage
from support.tampering import edit_manifest

from sealcar import errors
from sealcar.admin import Admin
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.client import Client

MODEL = model_around(b"a model that must not be seen")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("resealing"))
    daemon.grant(os.getuid(), rights=("reseal",))
    with daemon:
        yield daemon


@pytest.fixture
def client(shared: Daemon) -> Iterator[Client]:
    with shared.connect() as connected:
        yield connected


@pytest.fixture
def name(client: Client, request: pytest.FixtureRequest) -> str:
    """Import a package of this test's own and give its name."""
    chosen = f"p{abs(hash(request.node.name)) % 10**12}"
    client.catalogue.import_(PlannedPackage((PlannedBytes("model.onnx", "model", MODEL),), chosen))
    return chosen


def generation(daemon: Daemon, name: str, number: int = 1) -> Path:
    return daemon.store / name / "1" / "g" / str(number)


def wanted(manifest: dict[str, Any]) -> None:
    manifest["components"][COMPONENT]["variants"][VARIANT]["ep"] = "CPUExecutionProvider"


def with_an_unsealed_one(manifest: dict[str, Any]) -> None:
    wanted(manifest)
    manifest["components"][COMPONENT]["variants"]["evil"] = {}


def answer(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run_command(*arguments, "--json", SEALCAR_SOCKET=str(daemon.socket))
    assert done.returncode == code, done.stdout + done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def said(daemon: Daemon, *arguments: str, code: int = 0) -> str:
    done = run_command(*arguments, SEALCAR_SOCKET=str(daemon.socket))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_an_edited_package_is_refused_shown_sealed_and_read_again(
    shared: Daemon, client: Client, name: str
) -> None:
    edit_manifest(generation(shared, name), with_an_unsealed_one)
    with pytest.raises(errors.NotAuthenticError, match="seal the package again"):
        client.scope(name, COMPONENT, VARIANT).read("model.onnx")
    text = said(shared, "reseal", name, code=1)
    assert f"differs: /components/{COMPONENT}/variants/{VARIANT}\n" in text
    assert f"aren't sealed: /components/{COMPONENT}/variants/evil\n" in text
    assert "say --yes" in text
    assert not generation(shared, name, 2).exists()
    assert "generation 2" in said(shared, "reseal", name, "--yes")
    assert client.scope(name, COMPONENT, VARIANT).read("model.onnx") == MODEL
    detail = client.catalogue.get(name)
    (variant,) = detail.variants
    assert (variant.ep, detail.generations) == ("CPUExecutionProvider", (2, 1))
    with pytest.raises(errors.NotAuthenticError):
        client.catalogue.get(name, "1", 1)


def test_scripts_get_the_differences_as_one_object(shared: Daemon, name: str) -> None:
    edit_manifest(generation(shared, name), wanted)
    seen = answer(shared, "reseal", name, "--dry-run")
    assert seen["changed"] == [f"/components/{COMPONENT}/variants/{VARIANT}"]
    assert (seen["generation"], seen["unsealed"]) == (0, [])
    assert answer(shared, "reseal", name, code=1)["error"]["kind"] == "WrongStateError"
    done = answer(shared, "reseal", f"{name}@1", "--yes")
    assert (done["generation"], done["manifest_sha256"]) == (2, seen["manifest_sha256"])
    assert answer(shared, "reseal", name, "--yes")["changed"] == []


def test_validate_lists_all_that_is_wrong(shared: Daemon, name: str) -> None:
    assert "0 errors, 0 warnings" in said(shared, "validate", name)
    edit_manifest(generation(shared, name), with_an_unsealed_one)
    generation(shared, name).joinpath(COMPONENT, VARIANT, "model.onnx").write_bytes(b"short")
    found = answer(shared, "validate", name, code=1)
    assert (found["verified"], found["generation"]) == (True, 1)
    assert [(each["severity"], each["code"], each["place"]) for each in found["findings"]] == [
        ("error", "changed", f"/components/{COMPONENT}/variants/{VARIANT}"),
        ("error", "size", f"{COMPONENT}/{VARIANT}/model.onnx"),
        ("warning", "not-sealed", f"/components/{COMPONENT}/variants/evil"),
    ]
    text = said(shared, "validate", f"{name}@1", "--generation", "1", code=1)
    assert f"error: size: {COMPONENT}/{VARIANT}/model.onnx: has 5 bytes" in text
    assert "2 errors, 1 warning" in text
    assert str(shared.store) not in text


def test_a_warning_alone_is_no_error(shared: Daemon, name: str) -> None:
    edit_manifest(generation(shared, name), lambda manifest: manifest.update(odd=1))
    assert "warning: unknown-field: /odd" in said(shared, "validate", name)


def test_a_locked_daemon_validates_but_says_that_it_has_no_key(
    shared: Daemon, client: Client, name: str
) -> None:
    with Admin(shared.admin, peer_uid=os.getuid()) as admin:
        admin.lock()
        try:
            assert not client.catalogue.validate(name).verified
            for command in ("validate", "inspect"):
                assert "NOT VERIFIED" in said(shared, command, name)
            with pytest.raises(errors.LockedError):
                client.catalogue.reseal(name)
        finally:
            admin.unlock()


def test_only_whole_packages_are_validated_and_resealed(shared: Daemon, name: str) -> None:
    for command in ("validate", "reseal"):
        assert "whole package" in said(shared, command, f"{name}/{COMPONENT}", code=2)


def test_a_manifest_that_nobody_looked_at_is_not_sealed(shared: Daemon, name: str) -> None:
    edit_manifest(generation(shared, name), wanted)
    with grpc_door(shared) as door:
        with refused(errors.InvalidRequestError, "32 bytes"):
            door.packages.Reseal(pb.ResealRequest(package=package(name)))
        with refused(errors.ConflictError, "look again"):
            door.packages.Reseal(pb.ResealRequest(package=package(name), manifest_sha256=bytes(32)))
    assert not generation(shared, name, 2).exists()


def test_who_may_do_everything_else_may_not_reseal(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    rights = daemon.policy.read_text().replace(', "reseal"', "")
    daemon.policy.write_text(rights)
    with daemon, daemon.connect() as client:
        client.catalogue.import_(PlannedPackage((PlannedBytes("model.onnx", "model", MODEL),)))
        edit_manifest(generation(daemon, PACKAGE), wanted)
        seen = client.catalogue.validate(PACKAGE)
        assert [each.code for each in seen.findings] == ["changed"]
        text = (generation(daemon, PACKAGE) / "manifest.json").read_bytes()
        for digest in (None, hashlib.sha256(text).digest()):
            with pytest.raises(errors.DeniedError, match="reseal"):
                client.catalogue.reseal(PACKAGE, manifest_sha256=digest)
        assert not generation(daemon, PACKAGE, 2).exists()


@pytest.mark.parametrize(("typed", "code", "generations"), [(b"y\n", 0, [2, 1]), (b"n\n", 1, [1])])
def test_on_a_terminal_it_asks(
    shared: Daemon, name: str, typed: bytes, code: int, generations: list[int]
) -> None:
    edit_manifest(generation(shared, name), wanted)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed)
        done = subprocess.run(
            [*COMMAND, "reseal", name],
            env=environment({"SEALCAR_SOCKET": str(shared.socket)}),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stderr
    assert f"differs: /components/{COMPONENT}/variants/{VARIANT}\n" in done.stdout
    assert "Vouch for all of it" in done.stdout
    found = sorted(int(path.name) for path in generation(shared, name).parent.iterdir())
    assert found[::-1] == generations


def test_who_vouched_for_what_is_in_the_audit_log(
    shared: Daemon, client: Client, name: str
) -> None:
    edit_manifest(generation(shared, name), wanted)
    seen = client.catalogue.reseal(name)
    client.catalogue.reseal(name, manifest_sha256=seen.manifest_sha256)
    files = sorted((shared.folder / "state" / "audit").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    looked, done = [line for line in lines if line.get("package") == name][-2:]
    assert (looked["right"], looked["step"]) == ("reseal", "look")
    assert (done["right"], done["outcome"], done["uid"]) == ("reseal", "done", os.getuid())
    assert (done["version"], done["generation"], done["made"]) == ("1", 1, 2)
    assert done["rule"].startswith("grant 2")
    assert done["manifest_sha256"] == looked["manifest_sha256"] == seen.manifest_sha256.hex()
    assert "step" not in done
    assert "made" not in looked
