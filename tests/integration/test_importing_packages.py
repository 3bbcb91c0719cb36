"""Packages with shared assets and archives, imported into a real daemon and read back."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from support.daemon import Daemon, run_command
from support.disk import files_below, runs
from support.onnx_models import inline, located, model, raw
from support.publishing import pack, with_asset, write, write_manifest

from sealcar import errors, modelpackage, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar import Client, Scope

WEIGHTS = bytes(range(16))
VOCABULARY = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(99))
FOLDER = "session.model_external_initializers_file_folder_path"
BIG = raw(model(inline("W", range(100_000))))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Write a package of which everything but two models lies in shared assets."""
    root = tmp_path / "ocr"
    weights = with_asset(root, {"w.bin": WEIGHTS})
    vocabulary = with_asset(root, {"rec/vocab.txt": VOCABULARY})
    whole = with_asset(root, {"m.onnx": raw(model(located("w.bin"))), "w.bin": WEIGHTS})
    write(root / "det" / "v", {"m.onnx": raw(model(located("w.bin")))})
    write(root / "rec" / "v", {"m.onnx": BIG})
    det = {"ort": {"model_file": "m.onnx", "session_options": {FOLDER: weights}}}
    rec = {"ort": {"model_file": "m.onnx"}, "own": {"vocab": f"{vocabulary}/rec/vocab.txt"}}
    cls = {"ort": {"model_file": f"{whole}/m.onnx"}}
    components = {
        name: {"variants": {"v": {"variant_directory": f"{name}/v", "executor_info": info}}}
        for name, info in (("det", det), ("rec", rec))
    }
    components["cls"] = {"variants": {"v": {"executor_info": cls}}}
    return write_manifest(root, components=components, package_name="ocr")


def imported(daemon: Daemon, source: Path, *more: str, code: int = 0) -> dict[str, Any]:
    done = run_command("import", str(source), *more, "--json", SEALCAR_SOCKET=str(daemon.socket))
    assert done.returncode == code, done.stderr + done.stdout
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def told(scope: Scope) -> dict[str, Any]:
    info = scope.executor_info["ort"]
    assert isinstance(info, dict)
    return info


@pytest.mark.parametrize("how", ["directory", "archive"])
def test_what_variants_refer_to_in_assets_is_read_through_their_scopes(
    daemon: Daemon, client: Client, package: Path, tmp_path: Path, how: str
) -> None:
    name = f"ocr-{how}"
    source = pack(package, tmp_path / "ocr.tar") if how == "archive" else package
    made = imported(daemon, source, "--name", name)
    assert made["payloads"] == 8

    det = client.scope(name, "det", "v")
    prefix = det.resolve_folder(told(det)["session_options"][FOLDER])
    assert det.read(f"{prefix}w.bin") == WEIGHTS

    cls = client.scope(name, "cls", "v")
    reference = told(cls)["model_file"]
    assert cls.read(cls.resolve(reference)) == raw(model(located("w.bin")))

    rec = client.scope(name, "rec", "v")
    own = rec.executor_info["own"]
    assert isinstance(own, dict)
    assert rec.read(rec.resolve(own["vocab"])) == VOCABULARY

    with pytest.raises(errors.NotFoundError):
        rec.read(cls.resolve(reference))
    assert not runs(files_below(daemon.folder), {"vocabulary": VOCABULARY})


def test_the_store_holds_what_the_formats_own_rules_accept(daemon: Daemon, package: Path) -> None:
    imported(daemon, package, "--name", "accepted")
    (manifest,) = (daemon.store / "accepted").rglob("manifest.json")
    assert not modelpackage.validate(manifest.parent).errors
    with modelpackage.open(manifest.parent) as stored:
        assert len(stored.shared_assets) == 3


def test_initializers_move_unless_the_publisher_keeps_them(
    daemon: Daemon, client: Client, tmp_path: Path
) -> None:
    source = write(tmp_path, {"m.onnx": BIG}) / "m.onnx"
    imported(daemon, source, "--name", "moved")
    scope = client.scope("moved")
    assert [(item.name, item.kind) for item in scope.payloads] == [
        ("m.onnx", "model"),
        ("m.onnx.data", "initializers"),
    ]
    proto = onnx.ModelProto.FromString(scope.read("m.onnx"))
    assert [entry.key for entry in proto.metadata_props] == ["sealcar.source_sha256"]

    imported(daemon, source, "--name", "kept", "--keep-inline")
    assert client.scope("kept").read("m.onnx") == BIG


def test_a_model_of_the_runtimes_own_format_is_a_variant(
    daemon: Daemon, client: Client, tmp_path: Path
) -> None:
    data = b"\x1c\0\0\0ORTM" + bytes(1000)
    imported(daemon, write(tmp_path, {"m.ort": data}) / "m.ort")
    scope = client.scope("m")
    assert told(scope)["model_file"] == "m.ort"
    assert scope.read("m.ort") == data


def test_an_asset_that_changes_after_the_check_leaves_nothing_behind(
    daemon: Daemon, client: Client, package: Path
) -> None:
    with publish.plan(package, name="changed") as plan:
        (vocabulary,) = package.rglob("vocab.txt")
        vocabulary.write_bytes(VOCABULARY[::-1])
        with pytest.raises(errors.InvalidPackageError, match="changed while it was read"):
            client.catalogue.import_(plan)
    assert not list(daemon.store.rglob("changed/**/manifest.json"))
    assert "changed" not in {item.name for item in client.catalogue.list()}


def test_a_publisher_who_checks_nothing_is_told_by_the_daemon(
    client: Client, package: Path
) -> None:
    with publish.plan(package, name="lying") as plan:
        first = next(item for item in plan.payloads if item.asset)
        object.__setattr__(first, "_chunks", lambda: iter([bytes(first.size)]))
        with pytest.raises(errors.InvalidPackageError) as caught:
            client.catalogue.import_(plan)
    assert first.asset in str(caught.value)


def test_a_refused_package_is_an_error_with_place_and_rule(daemon: Daemon, package: Path) -> None:
    (vocabulary,) = package.rglob("vocab.txt")
    vocabulary.write_bytes(VOCABULARY[::-1])
    found = imported(daemon, package, code=1)["error"]
    assert found["kind"] == "InvalidPackageError"
    assert "isn't what its name says" in found["message"]
