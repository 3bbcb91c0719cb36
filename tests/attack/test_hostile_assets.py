"""Shared assets and hostile hands: on the store's files, in an index, in an import."""

from __future__ import annotations

import base64
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.asset_packages import (
    VOCABULARY,
    AssetPackage,
    asset_folders,
    ort,
    sealed_uri,
    uri_of,
    weights_in,
)
from support.services import ME, Running
from support.tampering import edit, flip, refused, swap

from sealcar.errors import (
    AlreadyExistsError,
    InvalidNameError,
    InvalidPackageError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    TruncatedError,
)
from sealcar_server.service import composing, incoming
from sealcar_server.service.values import ImportPlan, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCOPE = ScopeKey("ocr", "1", "det", "onnx")
TWIN = ScopeKey("twin", "1", "det", "onnx")
# the names of VOCABULARY, and sizes of it, but other bytes
SECRET = {name: data[::-1] for name, data in VOCABULARY.items()}


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """Give the daemon's directory with two packages whose assets differ in their bytes only."""
    with Running(tmp_path) as running:
        AssetPackage.with_weights().import_into(running, "ocr")
        AssetPackage.with_weights(SECRET).import_into(running, "twin")
    return tmp_path


def folder(root: Path, name: str = "ocr") -> Path:
    return asset_folders(root / "store" / name / "1/g/1")[0]


def name_in(root: Path, package: str = "ocr", file: str = "vocab.txt") -> str:
    return f"{sealed_uri(folder(root, package))}/{file}"


def test_a_changed_byte_of_an_asset_is_refused(assets: Path) -> None:
    flip(folder(assets) / "vocab.txt", 50)
    error = refused(assets, SCOPE, name_in(assets))
    assert isinstance(error, NotAuthenticError)
    assert error.place.payload == name_in(assets)


def test_a_truncated_file_of_an_asset_is_refused(assets: Path) -> None:
    edit(folder(assets) / "vocab.txt", lambda data: data.__delitem__(slice(-1, None)))
    assert isinstance(refused(assets, SCOPE, name_in(assets)), TruncatedError)


@pytest.mark.parametrize("gone", ["vocab.txt", "."])
def test_a_missing_asset_is_refused(assets: Path, gone: str) -> None:
    name, path = name_in(assets), folder(assets) / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert isinstance(refused(assets, SCOPE, name), TruncatedError)


def test_assets_that_are_swapped_between_packages_are_refused(assets: Path) -> None:
    names = [name_in(assets, "ocr"), name_in(assets, "twin")]
    for file in VOCABULARY:
        swap(folder(assets, "ocr") / file, folder(assets, "twin") / file)
    for scope, name in zip((SCOPE, TWIN), names, strict=True):
        assert isinstance(refused(assets, scope, name), NotAuthenticError)


def test_two_swapped_files_of_an_asset_are_refused(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        AssetPackage.with_weights({"a": b"one", "b": b"two"}).import_into(running)
    swap(folder(tmp_path) / "a", folder(tmp_path) / "b")
    for name in "ab":
        error = refused(tmp_path, SCOPE, name_in(tmp_path, file=name))
        assert isinstance(error, NotAuthenticError)


def test_a_link_in_the_place_of_an_asset_is_not_followed(assets: Path) -> None:
    name, place = name_in(assets), folder(assets)
    place.rename(assets / "elsewhere")
    place.symlink_to(assets / "elsewhere")
    assert isinstance(refused(assets, SCOPE, name), NotAuthenticError)


def test_a_manifest_that_names_another_asset_is_refused(assets: Path) -> None:
    path = assets / "store/ocr/1/g/1/manifest.json"
    own, other = folder(assets, "ocr"), folder(assets, "twin")
    path.write_text(path.read_text().replace(sealed_uri(own), sealed_uri(other)))
    shutil.copytree(other, own.parent / other.name)
    with Running(assets) as running, pytest.raises(NotAuthenticError, match="executor_info/ort"):
        running.payloads.open(ME, SCOPE)


def test_files_that_were_put_into_an_asset_are_not_served(assets: Path) -> None:
    (folder(assets) / "more.txt").write_bytes(b"x" * 100)
    with Running(assets) as running, pytest.raises(NotFoundError):
        running.payloads.read(ME, SCOPE, name_in(assets, file="more.txt"), running.scratch)


@pytest.mark.parametrize(
    "path", ["../../../manifest.json", "../../det/onnx/model.onnx", "deep/../vocab.txt", ""]
)
def test_a_name_leads_nowhere_else(assets: Path, path: str) -> None:
    name = name_in(assets, file=path)
    with Running(assets) as running, pytest.raises((InvalidNameError, NotFoundError)):
        running.payloads.read(ME, SCOPE, name, running.scratch)


def entries(root: Path) -> dict[str, Path]:
    """Return the index's entries by the package that each leads to."""
    found: dict[str, Path] = {}
    for path in (root / "store/assets").iterdir():
        text = json.loads(path.read_bytes())["record"]
        padded = text + "=" * (-len(text) % 4)
        found[json.loads(base64.urlsafe_b64decode(padded))["name"]] = path
    return found


def moved(root: Path) -> None:
    found = entries(root)
    shutil.copy(found["twin"], found["ocr"])


def retagged(root: Path) -> None:
    path = entries(root)["ocr"]
    envelope = json.loads(path.read_bytes())
    envelope["tag"] = "A" * 43
    path.write_text(json.dumps(envelope))


def emptied(root: Path) -> None:
    entries(root)["ocr"].write_bytes(b"")


def enlarged(root: Path) -> None:
    entries(root)["ocr"].write_bytes(b"[" * (1 << 20))


def linked(root: Path) -> None:
    path = entries(root)["ocr"]
    path.rename(root / "elsewhere")
    path.symlink_to(root / "elsewhere")


def a_pipe(root: Path) -> None:
    path = entries(root)["ocr"]
    path.unlink()
    os.mkfifo(path)


def swapped_below(root: Path) -> None:
    """Leave the index as it is, and put the twin's files in the place that it leads to."""
    place = folder(root)
    shutil.rmtree(place)
    shutil.copytree(folder(root, "twin"), place)


@pytest.mark.parametrize(
    "attack", [moved, retagged, emptied, enlarged, linked, a_pipe, swapped_below]
)
def test_an_index_that_lies_leads_no_import_to_other_bytes(
    assets: Path, attack: Callable[[Path], None]
) -> None:
    expected = folder(assets).name
    attack(assets)
    with Running(assets) as running:
        AssetPackage.with_weights().import_into(running, "victim")
        (place,) = asset_folders(running.generation("victim"))
        scope = ScopeKey("victim", "", "det", "onnx")
        for file, data in VOCABULARY.items():
            assert running.read(scope, f"{sealed_uri(place)}/{file}") == data
        assert running.packages.verify(ME, "victim", "", 0, lambda *_: None).payloads == 3
        assert place.name != expected


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        (InvalidNameError, ["../../../evil"]),
        (InvalidNameError, ["/etc/passwd"]),
        (InvalidNameError, [".hidden"]),
        (InvalidNameError, ["a\\b"]),
        (InvalidNameError, ["manifest.json"]),
        (AlreadyExistsError, ["twice", "Twice"]),
        (InvalidNameError, ["both", "both/file"]),
    ],
)
def test_hostile_names_in_an_asset_are_refused(
    tmp_path: Path, kind: type[SealcarError], files: list[str]
) -> None:
    with Running(tmp_path) as running:
        package = AssetPackage.with_weights(dict.fromkeys(files, b"x"))
        with pytest.raises(kind):
            package.import_into(running)
        assert not any((running.store_path / ".staging").iterdir())


@pytest.mark.parametrize(
    "uri", ["", "sha256:", "sha256:" + "A" * 64, "sha256:" + "0" * 64 + "/x", "sha256-" + "0" * 64]
)
def test_hostile_uris_of_assets_are_refused(tmp_path: Path, uri: str) -> None:
    with Running(tmp_path) as running:
        plan = ImportPlan("ocr", "1", AssetPackage({}, {("det", "onnx"): ort()}).manifest_json)
        with running.packages.import_(ME, plan) as session, pytest.raises(InvalidPackageError):
            session.payload("", "", "a", "other", 1, asset=uri)


def test_a_payload_belongs_to_a_variant_or_to_an_asset(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        plan = ImportPlan("ocr", "1", AssetPackage({}, {("det", "onnx"): ort()}).manifest_json)
        uri = uri_of(VOCABULARY)
        with running.packages.import_(ME, plan) as session, pytest.raises(InvalidPackageError):
            session.payload("det", "onnx", "a", "other", 1, asset=uri)


def test_more_assets_than_a_package_may_have_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "MAX_ASSETS", 3)
    with Running(tmp_path) as running:
        plan = ImportPlan("ocr", "1", AssetPackage({}, {("det", "onnx"): ort()}).manifest_json)
        with running.packages.import_(ME, plan) as session:
            for number in range(3):
                session.payload("", "", "a", "other", 0, asset=f"sha256:{number:064x}")
            with pytest.raises(InvalidPackageError, match="over 3 shared assets"):
                session.payload("", "", "a", "other", 0, asset=f"sha256:{3:064x}")
        assert not any((running.store_path / ".staging").iterdir())


def test_variants_can_not_multiply_the_files_of_an_asset_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description names them for each variant: few files must not fill the daemon's memory."""
    monkeypatch.setattr(composing, "MAX_SEEN", 99)
    files = {f"{number:04}": b"" for number in range(10)}
    uri = uri_of(files)
    variants = [("det", f"v{number}") for number in range(10)]
    package = AssetPackage(
        {uri: files}, dict.fromkeys(variants, ort(f"{uri}/0000")), bare=tuple(variants)
    )
    with Running(tmp_path) as running:
        with pytest.raises(InvalidPackageError, match="have 100 payloads together"):
            package.import_into(running)
        assert not any((running.store_path / ".staging").iterdir())


@pytest.mark.parametrize("asset", [False, True])
def test_payloads_without_end_are_refused_while_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asset: bool
) -> None:
    monkeypatch.setattr(incoming, "MAX_SEEN", 2)
    plan = ImportPlan("ocr", "1", AssetPackage({}, {("det", "onnx"): {}}).manifest_json)
    place = ("", "") if asset else ("det", "onnx")
    uri = f"sha256:{'0' * 64}" if asset else ""
    with Running(tmp_path) as running, running.packages.import_(ME, plan) as session:
        for name in ("one", "two"):
            session.payload(*place, name, "other", 0, asset=uri)
        with pytest.raises(InvalidPackageError, match="over 2 payloads"):
            session.payload(*place, "three", "other", 0, asset=uri)
        assert not any((running.store_path / ".staging").iterdir())


def test_what_claims_to_be_a_known_asset_gets_nothing_of_it(assets: Path) -> None:
    """Who knows the hash of another's asset, and not its bytes, can't import it."""
    with Running(assets) as running:
        claimed = AssetPackage({uri_of(SECRET): VOCABULARY}, {("det", "onnx"): ort()})
        with pytest.raises(InvalidPackageError, match="aren't those it names"):
            claimed.import_into(running, "thief")
        nothing = AssetPackage({}, {("det", "onnx"): weights_in(uri_of(SECRET))})
        with pytest.raises(InvalidPackageError, match="no asset of the package"):
            nothing.import_into(running, "thief")
