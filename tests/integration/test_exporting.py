"""A package leaves a daemon whole, sealed or plain, and a sealed one is taken back."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.payload_packages import publish, varied

from sealcar import errors, modelpackage
from sealcar.exports import Destination

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RIGHTS = ("list", "read", "write", "import", "verify", "export", "export-plain", "manage")
BLOB = varied((3 << 20) + 17)
PAYLOADS = {"blob": BLOB, "empty": b""}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("d"))
    made.grant(os.geteuid(), rights=RIGHTS)
    with made as daemon:
        with daemon.connect() as client:
            publish(client, PAYLOADS)
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
    steps = []
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
    assert (files["c/v/empty"], files["c/v/model.onnx"]) == (b"", b"model")
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
