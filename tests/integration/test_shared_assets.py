"""Packages with shared assets over both doors of a real daemon."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, run_command
from support.grpcdoor import grpc_door
from support.models import EXTERNAL_FILE, external_model, whole_model
from support.publishing import one_variant, with_asset, write, write_manifest
from support.segment_readers import mapped_by

from sealcar import errors, publish
from sealcar.modelpackage import hash_directory
from sealcar.v1 import common_pb2, package_store_pb2, payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar import Client

FOLDER = "session.model_external_initializers_file_folder_path"
MODEL, WEIGHTS = external_model()
ASSET = {EXTERNAL_FILE: WEIGHTS, "notes/read me.txt": b"notes"}


def plain_package(root: Path, **more: Any) -> str:  # noqa: ANN401  (executor_info)
    """Write a package whose model has its weights in a shared asset; return its URI."""
    uri = with_asset(root, ASSET)
    write(root / "v", {"model.onnx": MODEL})
    ort = {"model_file": "model.onnx", "session_options": {FOLDER: uri}}
    write_manifest(root, components=one_variant(executor_info={"ort": ort, **more}))
    return uri


def take_in(client: Client, root: Path, name: str) -> None:
    with publish.plan(root, name=name) as plan:
        client.catalogue.import_(plan)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("plain")
    plain_package(root, genai={"text": f"{with_asset(root, ASSET)}/notes/read me.txt"})
    return root


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, plain: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            take_in(client, plain, "one")
            take_in(client, plain, "two")
        yield daemon


def asset_folder(daemon: Daemon, name: str, generation: int = 1) -> Path:
    (found,) = (daemon.store / name / "1/g" / str(generation) / "shared_assets").iterdir()
    return found


def test_references_lead_to_the_assets_bytes(client: Client) -> None:
    scope = client.scope("one", "c", "v")
    options: Any = scope.executor_info["ort"]
    reference = options["session_options"][FOLDER]
    assert scope.read(scope.resolve(f"{reference}/{EXTERNAL_FILE}")) == WEIGHTS
    prefix = scope.resolve_folder(reference)
    assert prefix == f"{reference}/"
    assert {item.name for item in scope.payloads if item.name.startswith(prefix)} == {
        f"{prefix}{name}" for name in ASSET
    }
    assert scope.resolve("./x/../model.onnx") == "model.onnx"


def test_a_reference_of_another_executor_leads_to_a_copy_of_its_own(client: Client) -> None:
    scope = client.scope("one", "c", "v")
    info: Any = scope.executor_info["genai"]
    name = scope.resolve(info["text"])
    assert name.startswith("sha256-")
    assert scope.read(name) == b"notes"
    assert scope.resolve_folder(info["text"].rpartition("/")[0]) == name.rpartition("/")[0] + "/"


@pytest.mark.parametrize("reference", ["../model.onnx", "a/../../b", "/etc/passwd", ".."])
def test_a_reference_leads_out_of_nothing(client: Client, reference: str) -> None:
    scope = client.scope("one", "c", "v")
    for resolve in (scope.resolve, scope.resolve_folder):
        with pytest.raises(errors.InvalidNameError, match="leads out of its folder"):
            resolve(reference)


@pytest.mark.parametrize("reference", ["model.onnx/x", "none", "sha256:" + "0" * 64 + "/x", ""])
def test_a_reference_to_nothing_is_not_found(client: Client, reference: str) -> None:
    with pytest.raises(errors.NotFoundError):
        client.scope("one", "c", "v").resolve(reference)


def test_equal_assets_of_two_packages_are_one_file(daemon: Daemon, client: Client) -> None:
    one, two = asset_folder(daemon, "one"), asset_folder(daemon, "two")
    assert one.name == two.name
    assert hash_directory(one) == one.name.replace("-", ":")
    for name in ASSET:
        assert (one / name).stat().st_ino == (two / name).stat().st_ino
    identities = {
        client.scope(name, "c", "v")
        .payload(f"{one.name.replace('-', ':')}/{EXTERNAL_FILE}")
        .identity
        for name in ("one", "two")
    }
    assert len(identities) == 1


def test_equal_assets_of_two_packages_are_decrypted_once_for_all_who_share(
    daemon: Daemon, client: Client
) -> None:
    before = daemon.metric("sealcar_phase_seconds_count", phase="fill")
    name = f"{asset_folder(daemon, 'one').name.replace('-', ':')}/{EXTERNAL_FILE}"
    with (
        client.scope("one", "c", "v").map(name, shared=True) as one,
        client.scope("two", "c", "v").map(name, shared=True) as two,
    ):
        assert bytes(one.view) == bytes(two.view) == WEIGHTS
        assert len(mapped_by(os.getpid()).inodes) == 1
    assert daemon.metric("sealcar_phase_seconds_count", phase="fill") - before == 1


def test_the_grpc_door_lists_reads_and_verifies_them(daemon: Daemon) -> None:
    uri = asset_folder(daemon, "one").name.replace("-", ":")
    package = common_pb2.PackageRef(name="one")
    scope = common_pb2.Scope(package=package, component="c", variant="v")
    with grpc_door(daemon) as door:
        got = door.packages.Get(package_store_pb2.GetRequest(package=package))
        assert [asset.uri for asset in got.assets] == [uri]
        assert {item.name for item in got.assets[0].payloads} == set(ASSET)
        name = f"{uri}/{EXTERNAL_FILE}"
        assert name in [item.name for item in got.variants[0].payloads]
        request = payloads_pb2.ReadRequest(scope=scope, name=name)
        steps = list(door.payloads.Read(request))
        assert b"".join(step.data for step in steps) == WEIGHTS
        *_, last = door.packages.Verify(package_store_pb2.VerifyRequest(package=package))
        assert last.verified.payloads == 1 + len(ASSET) + len(ASSET)


def test_a_variant_that_is_written_refers_to_the_assets_of_its_package(
    daemon: Daemon, client: Client
) -> None:
    uri = asset_folder(daemon, "two").name.replace("-", ":")
    with client.begin("two", "c", "compiled") as transaction:
        transaction.write("model.onnx", MODEL, "model")
        ort = {"model_file": "model.onnx", "session_options": {FOLDER: uri}}
        scope = transaction.commit(executor_info={"ort": ort})
    assert scope.read(scope.resolve(f"{uri}/{EXTERNAL_FILE}")) == WEIGHTS
    before, after = asset_folder(daemon, "two"), asset_folder(daemon, "two", 2)
    assert (before / EXTERNAL_FILE).stat().st_ino == (after / EXTERNAL_FILE).stat().st_ino
    with client.begin("two", "c", "wrong") as transaction:
        transaction.write("model.onnx", whole_model(), "model")
        ort = {"model_file": "model.onnx", "session_options": {FOLDER: f"sha256:{'0' * 64}"}}
        with pytest.raises(errors.InvalidRequestError, match="no asset that the caller reads"):
            transaction.commit(executor_info={"ort": ort})


def test_a_package_outlives_the_other_that_it_shares_with(
    daemon: Daemon, client: Client, plain: Path
) -> None:
    take_in(client, plain, "first")
    take_in(client, plain, "second")
    done = run_command("keys", "shred", "first", "--yes", "--admin", str(daemon.admin), "--json")
    assert done.returncode == 0, done.stderr
    scope = client.scope("second", "c", "v")
    uri = asset_folder(daemon, "second").name.replace("-", ":")
    assert scope.read(f"{uri}/{EXTERNAL_FILE}") == WEIGHTS
