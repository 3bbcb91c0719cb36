"""Sealed shared assets are shared assets to ONNX Runtime's own package library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from support.asset_packages import (
    CONTEXT,
    VOCABULARY,
    WEIGHTS,
    AssetPackage,
    asset_folders,
    ort,
    sealed_uri,
    uri_of,
)
from support.services import Running

if TYPE_CHECKING:
    from collections.abc import Iterator

Native: TypeAlias = Any  # the library's class, which older ones haven't got
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.ort132,
    pytest.mark.skipif(
        not hasattr(onnxruntime, "ModelPackage"), reason="ONNX Runtime has no package library"
    ),
]
PLAIN = uri_of(VOCABULARY)
UNUSED = {"unused.bin": b"nothing refers to this"}


@pytest.fixture
def generation(tmp_path: Path) -> Iterator[Path]:
    options = {WEIGHTS: PLAIN, CONTEXT: f"{PLAIN}/deep/er/merges"}
    package = AssetPackage(
        {PLAIN: VOCABULARY, uri_of(UNUSED): UNUSED},
        {
            ("det", "onnx"): ort(f"{PLAIN}/vocab.txt", **options),
            ("rec", "onnx"): ort(),
        },
        bare=(("det", "onnx"),),
    )
    with Running(tmp_path / "daemon") as running:
        package.import_into(running)
        yield running.generation()


@pytest.fixture
def native(generation: Path) -> Iterator[Native]:
    package = onnxruntime.ModelPackage.open(str(generation))
    yield package
    package.close()


def saved_as(native: Native, target: Path) -> None:
    """Save it elsewhere: assets are copied and hashed, directories of variants stay behind."""
    with pytest.raises(FileNotFoundError, match="onnx"):
        native.commit(str(target))


def test_the_library_finds_every_asset_by_its_name(native: Native, generation: Path) -> None:
    found = {item["uri"]: item["resolved_path"] for item in native.get_info()["shared_assets"]}
    assert found == {sealed_uri(folder): str(folder) for folder in asset_folders(generation)}
    assert len(found) == 2


def test_the_library_resolves_the_references_of_a_variant(native: Native, generation: Path) -> None:
    (folder,) = (place for place in asset_folders(generation) if (place / "vocab.txt").exists())
    uri = sealed_uri(folder)
    for name in VOCABULARY:
        found = native.resolve_string_ref(f"{uri}/{name}", str(generation / "det/onnx"), True)  # noqa: FBT003  (its own)
        assert Path(found) == folder / name
    # resolves all references of all variants, and refuses the package if one leads nowhere
    onnxruntime.ModelPackageContext(str(generation))


def test_the_library_hashes_the_assets_and_finds_what_they_are_called(
    native: Native, generation: Path, tmp_path: Path
) -> None:
    saved_as(native, tmp_path / "saved")
    for folder in asset_folders(generation):
        copy = tmp_path / "saved/shared_assets" / folder.name
        assert sorted(path.relative_to(copy) for path in copy.rglob("*")) == sorted(
            path.relative_to(folder) for path in folder.rglob("*")
        )


def test_the_library_notices_a_changed_byte(
    native: Native, generation: Path, tmp_path: Path
) -> None:
    path = next(asset_folders(generation)[0].glob("*.*"))
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(RuntimeError, match="hash mismatch"):
        native.commit(str(tmp_path / "saved"))
