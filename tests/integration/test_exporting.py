"""A package leaves a daemon whole, sealed or plain, and a sealed one is taken back."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest
from support import models
from support.daemon import Daemon, run_command
from support.payload_packages import PlannedBytes, PlannedPackage, varied

from sealcar import errors, modelpackage, publish
from sealcar.exports import Destination

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.catalogue import Progress

RIGHTS = ("list", "read", "write", "import", "verify", "export", "export-plain", "manage")
BLOB = varied((3 << 20) + 17)
PAYLOADS = (PlannedBytes("blob", "blob", BLOB), PlannedBytes("empty", "other", b""))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("d"))
    made.grant(os.geteuid(), rights=RIGHTS)
    with made as daemon:
        with daemon.connect() as client:
            client.catalogue.import_(PlannedPackage(PAYLOADS))
        yield daemon


@pytest.fixture(scope="module")
def replica(shared: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give another daemon with the same key and a store of its own."""
    key = f"file:{shared.folder / 'kek'}"
    made = Daemon(tmp_path_factory.mktemp("r"), init=("--key-uri", key))
    made.grant(os.geteuid(), rights=RIGHTS)
    with made as daemon:
        yield daemon


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_sealed_export_is_the_generation_as_it_lies_in_the_store(
    shared: Daemon, tmp_path: Path
) -> None:
    steps: list[Progress] = []
    with shared.connect() as client:
        made = client.catalogue.export("m", Destination(tmp_path / "out"), progress=steps.append)
    stored = tree(shared.store / "m/1/g/1")
    assert tree(tmp_path / "out") == stored
    assert (made.name, made.version, made.generation) == ("m", "1", 1)
    assert (made.files, made.size) == (len(stored), sum(map(len, stored.values())))
    assert steps[-1].done == steps[-1].total == made.size
    assert not list(tmp_path.glob(".sealcar-*"))


def test_a_plain_export_is_what_was_imported_and_for_its_owner_only(
    shared: Daemon, tmp_path: Path
) -> None:
    with shared.connect() as client:
        client.catalogue.export("m", Destination(tmp_path / "out"), plain=True)
    files = tree(tmp_path / "out")
    assert files["c/v/blob"] == BLOB
    assert files["c/v/empty"] == b""
    manifest = json.loads(files["manifest.json"])
    assert b"sealcar" not in files["manifest.json"]
    assert manifest["components"]["c"]["variants"]["v"] == {"variant_directory": "c/v"}
    assert modelpackage.validate(tmp_path / "out").findings == ()
    for path in (tmp_path / "out").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize("plain", [False, True], ids=["sealed", "plain"])
def test_a_tar_is_the_same_each_time_and_tells_nothing_of_who_made_it(
    shared: Daemon, tmp_path: Path, *, plain: bool
) -> None:
    with shared.connect() as client:
        for name in ("a.tar", "b.tar"):
            client.catalogue.export("m", Destination(tmp_path / name, tar=True), plain=plain)
        client.catalogue.export("m", Destination(tmp_path / "out"), plain=plain)
    digests = [hashlib.sha256((tmp_path / n).read_bytes()).digest() for n in ("a.tar", "b.tar")]
    assert digests[0] == digests[1]
    with tarfile.open(tmp_path / "a.tar") as tar:
        members = tar.getmembers()
        found = {each.name: tar.extractfile(each).read() for each in members}  # type: ignore[union-attr]  # regular files
    assert found == tree(tmp_path / "out")
    assert [each.name for each in members] == sorted(found)
    for each in members:
        assert (each.mtime, each.mode, each.uid, each.gid) == (0, 0o644, 0, 0)
        assert (each.uname, each.gname) == ("", "")
    assert stat.S_IMODE((tmp_path / "a.tar").stat().st_mode) == (0o600 if plain else 0o644)


@pytest.mark.parametrize("tar", [False, True], ids=["directory", "tar"])
def test_nothing_is_overwritten(shared: Daemon, tmp_path: Path, *, tar: bool) -> None:
    taken = tmp_path / "taken"
    taken.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with shared.connect() as client:
        for place in (taken, tmp_path / "link"):
            with pytest.raises(errors.AlreadyExistsError):
                client.catalogue.export("m", Destination(place, tar))
        with pytest.raises(errors.NotFoundError):
            client.catalogue.export("unknown", Destination(tmp_path / "new", tar))
        with pytest.raises(errors.StorageError):
            client.catalogue.export("m", Destination(tmp_path / "no" / "such", tar))
    assert taken.read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "taken"]


@pytest.mark.parametrize("tar", [False, True], ids=["directory", "tar"])
def test_a_sealed_export_comes_in_again_where_the_same_key_is(
    shared: Daemon, replica: Daemon, tmp_path: Path, *, tar: bool
) -> None:
    out, name = tmp_path / "out", f"again-{tar}".lower()
    with shared.connect() as client:
        client.catalogue.import_(PlannedPackage(PAYLOADS, name))
        client.catalogue.export(name, Destination(out, tar))
        before = client.catalogue.get(name)
    plan = publish.sealed_plan(out)
    assert plan is not None
    with plan, replica.connect() as client:
        made = client.catalogue.import_(plan, sealed=True)
        assert (made.generation, made.package_id) == (1, before.package_id)
        assert client.scope(name, "c", "v").read("blob") == BLOB
        assert client.catalogue.verify(name).payloads == len(PAYLOADS)
        with pytest.raises(errors.AlreadyExistsError):
            client.catalogue.import_(plan, sealed=True)
    assert tree(replica.store / name / "1/g/1") == tree(shared.store / name / "1/g/1")
    assert not list((replica.store / ".staging").iterdir())


def test_a_copy_of_a_generation_out_of_a_store_is_taken_back_too(
    shared: Daemon, replica: Daemon
) -> None:
    with shared.connect() as client:
        client.catalogue.import_(PlannedPackage(PAYLOADS, "copied"))
    copy = str(shared.store / "copied/1/g/1")
    done = run_command("import", copy, "--json", SEALCAR_SOCKET=str(replica.socket))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["generation"] == 1


def test_a_newer_generation_follows_and_an_older_one_is_refused(
    shared: Daemon, replica: Daemon, tmp_path: Path
) -> None:
    compiled = models.whole_model()
    with shared.connect() as client:
        client.catalogue.import_(PlannedPackage(PAYLOADS, "grown"))
        for number in (1, 2, 3):
            client.catalogue.export("grown", Destination(tmp_path / f"g{number}"))
            with client.begin("grown", "c", f"v{number}") as transaction:
                transaction.write("model.onnx", compiled, "model")
                transaction.commit()
    plans = {number: publish.sealed_plan(tmp_path / f"g{number}") for number in (1, 2, 3)}
    with replica.connect() as client:
        for number in (1, 3):
            plan = plans[number]
            assert plan is not None
            with plan:
                assert client.catalogue.import_(plan, sealed=True).generation == number
        assert client.catalogue.get("grown").summary.generation == 3
        older = plans[2]
        assert older is not None
        with older, pytest.raises(errors.RolledBackError, match="older than 3"):
            client.catalogue.import_(older, sealed=True)
        assert client.scope("grown", "c", "v2").read("model.onnx") == compiled


def model_package(folder: Path) -> Path:
    """Make a package of a model and a shared asset, by hand."""
    asset = folder / "shared_assets" / "new"
    (asset / "deep").mkdir(parents=True)
    (asset / "vocab.txt").write_bytes(b"[PAD]")
    (asset / "deep" / "merges").write_bytes(varied(1 << 20))
    uri = modelpackage.hash_directory(asset)
    asset.rename(asset.with_name(uri.replace(":", "-")))
    variant = folder / "det" / "cpu"
    variant.mkdir(parents=True)
    (variant / "model.onnx").write_bytes(models.whole_model())
    options = {"session.model_external_initializers_file_folder_path": f"{uri}/deep"}
    info = {
        "ort": {"model_file": "model.onnx", "session_options": options},
        "tokens": {"vocabulary": f"{uri}/vocab.txt"},
    }
    body = {"variant_directory": "det/cpu", "ep": "CPUExecutionProvider", "executor_info": info}
    manifest = {
        "schema_version": "1.0",
        "package_name": "Detector",
        "layout": "portable",
        "additional_metadata": {"mine": [1, 2.5, "é"]},
        "components": {"det": {"variants": {"cpu": body}}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_plain_export_has_the_original_references_and_imports_to_the_same_bytes(
    shared: Daemon, tmp_path: Path
) -> None:
    source = model_package(tmp_path / "source")
    for name, here in (("first", source), ("second", tmp_path / "first")):
        with shared.connect() as client, publish.plan(here, name=name) as plan:
            client.catalogue.import_(plan)
            client.catalogue.export(name, Destination(tmp_path / name), plain=True)
    first = tree(tmp_path / "first")
    assert json.loads(first["manifest.json"]) == json.loads((source / "manifest.json").read_text())
    originals = tree(source)
    del originals["manifest.json"], originals["det/cpu/model.onnx"]
    assert originals.items() <= first.items()
    # the copies that other executors' references lead to in a store aren't needed here
    assert not [path for path in first if path.startswith("det/cpu/sha256-")]
    assert list((shared.store / "first/1/g/1/det/cpu").glob("sha256-*/vocab.txt"))
    assert tree(tmp_path / "second") == first
    archive = tmp_path / "first.tar"
    with shared.connect() as client:
        client.catalogue.export("first", Destination(archive, tar=True), plain=True)
        with publish.plan(archive, name="third") as plan:
            client.catalogue.import_(plan)
        client.catalogue.export("third", Destination(tmp_path / "third"), plain=True)
    third = tree(tmp_path / "third")
    # the order of fields is all that may differ
    assert json.loads(third.pop("manifest.json")) == json.loads(first["manifest.json"])
    assert {"manifest.json": first["manifest.json"], **third} == first
    opened = modelpackage.open(tmp_path / "first")
    assert [one.uri for one in opened.shared_assets.values()] == [
        modelpackage.hash_directory(one.path) for one in opened.shared_assets.values()
    ]


def test_the_command_exports_and_imports_and_warns_of_plaintext(
    shared: Daemon, replica: Daemon, tmp_path: Path
) -> None:
    def run(daemon: Daemon, *arguments: str) -> tuple[str, str]:
        done = run_command(*arguments, SEALCAR_SOCKET=str(daemon.socket))
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    out, plain = str(tmp_path / "out.tar"), str(tmp_path / "plain")
    said, warned = run(shared, "export", "m@1", out, "--tar", "--generation", "1")
    assert said.startswith("exported m@1, generation 1, to ")
    assert warned == ""
    said, warned = run(shared, "export", "m", plain, "--plain", "--json")
    assert "PLAINTEXT" in warned
    assert json.loads(said)["files"] == 1 + len(PAYLOADS)
    said, _ = run(replica, "import", out)
    assert said.startswith("imported m@1, generation 1:")
    wrong = run_command("import", out, "--name", "x", SEALCAR_SOCKET=str(replica.socket))
    assert (wrong.returncode, "keeps its name" in wrong.stderr) == (1, True)
    wrong = run_command("export", "m/c", out, SEALCAR_SOCKET=str(shared.socket))
    assert (wrong.returncode, "whole package: m" in wrong.stderr) == (2, True)
