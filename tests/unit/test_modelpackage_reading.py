"""Rules of the format that the golden packages don't show."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from sealcar import modelpackage

if TYPE_CHECKING:
    from pathlib import Path

HASH = "sha256:" + "ab" * 32


def write(root: Path, **members: Any) -> Path:  # noqa: ANN401  (any JSON)
    manifest = {"schema_version": "1.0", "components": {}} | members
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


def one(**variant: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
    return {"c": {"variants": {"v": variant}}}


@pytest.mark.parametrize("version", ["1.0", "1", 1, "01.0", "1.00", f"1.{2**63 - 1}"])
def test_major_version_one_opens_in_every_spelling(tmp_path: Path, version: str | int) -> None:
    package = modelpackage.open(write(tmp_path, schema_version=version))
    assert package.schema_version.major == 1
    assert package.schema_version.written == version


@pytest.mark.parametrize("version", ["2.0", "0.9", 0, 2, -1, 2**64 - 1])
def test_another_major_version_is_a_version_error(tmp_path: Path, version: str | int) -> None:
    with pytest.raises(modelpackage.VersionError):
        modelpackage.open(write(tmp_path, schema_version=version))


@pytest.mark.parametrize(
    "version",
    [
        *("1.", ".0", "1.0.0", "1.a", "", " 1.0", "+1.0", "-1.0", "v1.0", "1.0\n"),
        *(f"1.{2**63}", "1." + "9" * 5000),
        *(1.0, True, None, [], {}, 2**64),
    ],
)
def test_a_malformed_version_is_a_schema_error(tmp_path: Path, version: object) -> None:
    with pytest.raises(modelpackage.SchemaError):
        modelpackage.open(write(tmp_path, schema_version=version))


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"components": {"a b": {"variants": 1}}}, "components['a b'].variants"),
        ({"components": {"c": {"variants": {"v": {"ep": 1}}}}}, "components.c.variants.v.ep"),
        (
            {"components": one(executor_info={"ort": 1})},
            "components.c.variants.v.executor_info.ort",
        ),
        ({"package_name": None}, "package_name"),
        ({"layout": "x"}, "layout"),
        ({"layout": ""}, "layout"),
        ({"shared_assets": {HASH: 1}}, f"shared_assets['{HASH}']"),
    ],
)
def test_an_error_names_the_json_path(tmp_path: Path, members: Any, where: str) -> None:  # noqa: ANN401  (any JSON)
    with pytest.raises(modelpackage.SchemaError) as caught:
        modelpackage.open(write(tmp_path, **members))
    assert caught.value.where == where


def test_an_error_in_a_file_of_its_own_names_the_json_path_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "decoder.json").write_text('{"variants": {"cpu": {"executor_info": []}}}')
    with pytest.raises(modelpackage.SchemaError) as caught:
        modelpackage.open(write(tmp_path, components={"decoder": "decoder.json"}))
    assert caught.value.where == "components.decoder.variants.cpu.executor_info"
    assert str(tmp_path / "decoder.json") in str(caught.value)


def test_a_hostile_key_is_shown_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(modelpackage.SchemaError) as caught:
        modelpackage.open(write(tmp_path, components={"\n\x1b[31m" * 99: 1}))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "path", ["/etc", "..", "../x", "a/..", "a/../../x", "", "x\0y", "x" * 5000, "x" * 300]
)
def test_a_path_that_leads_out_or_nowhere_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(modelpackage.PackageError):
        modelpackage.open(write(tmp_path, components=one(variant_directory=path)))


@pytest.mark.parametrize("name", ["../v", "/v", "", "x" * 300])
def test_a_variant_name_is_a_path_too(tmp_path: Path, name: str) -> None:
    package = write(tmp_path, components={"c": {"variants": {name: {}}}})
    if len(name) == 300:
        assert modelpackage.open(package).components["c"].variants[name].directory is None
    else:
        with pytest.raises(modelpackage.PackageError):
            modelpackage.open(package)


def test_a_missing_directory_behind_a_link_out_of_the_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "out").symlink_to(tmp_path)
    package = write(tmp_path / "p", components={"c": {"variants": {"out/none": {}}}})
    with pytest.raises(modelpackage.ConfinementError):
        modelpackage.open(package)
    # the one thing that the rule about links changes
    modelpackage.open(package, modelpackage.Rules(follow_symlinks=False))


@pytest.mark.parametrize("text", ["", ".", "./", "../x", "a/../..", "/etc"])
def test_a_declared_asset_outside_the_package_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(modelpackage.PackageError):
        modelpackage.open(write(tmp_path, shared_assets={HASH: text}))


def test_a_declared_asset_behind_a_link_is_refused_even_inside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(modelpackage.ConfinementError):
        modelpackage.open(write(tmp_path, shared_assets={HASH: "link"}))


def test_a_dangling_shared_assets_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared_assets").symlink_to("nowhere")
    with pytest.raises(modelpackage.ConfinementError):
        modelpackage.open(write(tmp_path))


def test_a_discovered_asset_gives_way_to_a_declared_one(tmp_path: Path) -> None:
    (tmp_path / "shared_assets" / HASH.replace(":", "-")).mkdir(parents=True)
    (tmp_path / "shared_assets" / "sha256-UPPER").mkdir()
    (tmp_path / "mine").mkdir()
    package = modelpackage.open(write(tmp_path, shared_assets={HASH: "mine"}))
    assert [asset.path for asset in package.shared_assets.values()] == [str(tmp_path / "mine")]


def test_duplicate_keys_are_refused_when_asked(tmp_path: Path) -> None:
    text = '{"schema_version":"1.0","components":{},"components":{}}'
    (tmp_path / "manifest.json").write_text(text)
    modelpackage.open(tmp_path)
    with pytest.raises(modelpackage.SchemaError):
        modelpackage.open(tmp_path, modelpackage.Rules(unique_keys=True))


def test_a_manifest_that_is_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(modelpackage.PackageError):
        modelpackage.open(tmp_path)


def test_what_is_closed_does_not_look_at_the_disk_again(tmp_path: Path) -> None:
    with modelpackage.open(write(tmp_path)) as package:
        assert package.resolve("x") == str(tmp_path / "x")
    assert package.components == {}
    package.close()
    for look in (package.resolve, package.resolve_asset, package.open_file):
        with pytest.raises(modelpackage.StateError, match="closed"):
            look("x")


def test_a_root_that_is_no_path_is_refused(tmp_path: Path) -> None:
    for root in ("a\0b", "", tmp_path / "none", tmp_path / ("x" * 300)):
        with pytest.raises(modelpackage.FileAccessError):
            modelpackage.open(root)
