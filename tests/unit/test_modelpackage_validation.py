"""Validation finds everything that is wrong, and tells errors from oddities."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sealcar import modelpackage
from sealcar.modelpackage import Check, StateError, validate

if TYPE_CHECKING:
    from pathlib import Path

ABSENT = "sha256:" + "ab" * 32


def write(root: Path, **members: Any) -> Path:  # noqa: ANN401  (any JSON)
    manifest = {"schema_version": "1.7", "components": {}} | members
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


def found(root: Path, checks: Check = Check.ALL) -> list[tuple[str | None, str]]:
    return [(item.check.name, item.where) for item in validate(root, checks).findings]


def test_a_sound_package_has_no_findings(tmp_path: Path) -> None:
    report = validate(write(tmp_path))
    assert report.as_json() == {"errors": [], "warnings": []}
    report.raise_for_errors()


def test_each_component_is_read_strictly_and_all_are_told(tmp_path: Path) -> None:
    components = {
        "a": {"variants": {}, "odd": 1},
        "b": {"variants": {"v": {"odd": 1}}},
        "c": {"variants": {}},
    }
    write(tmp_path, components=components)
    expected = [("SCHEMA", "components.a.odd"), ("SCHEMA", "components.b.variants.v.odd")]
    assert found(tmp_path) == expected
    with pytest.raises(StateError, match="2 errors"):
        validate(tmp_path).raise_for_errors()


def test_a_directory_that_went_since_the_package_was_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    body = {"variants": {"v": {"variant_directory": "files"}}}
    with modelpackage.open(write(tmp_path, components={"c": body})) as package:
        (tmp_path / "files").rmdir()
        report = validate(package)
    assert [item.where for item in report.errors] == ["components.c.variants.v.variant_directory"]


def test_an_asset_is_missing_or_has_other_content(tmp_path: Path) -> None:
    place = tmp_path / "shared_assets" / ABSENT.replace(":", "-")
    place.mkdir(parents=True)
    other = "sha256:" + "cd" * 32
    write(tmp_path, shared_assets={other: "nowhere"})
    report = validate(tmp_path)
    assert [item.where for item in report.errors] == [f"shared_assets['{ABSENT}']"]
    assert [item.where for item in report.warnings] == [f"shared_assets['{other}']"]
    assert report.as_json()["errors"] == [
        {"code": "ASSET_REHASH", "message": f"{report.errors[0].where}: {report.errors[0].message}"}
    ]


def test_an_asset_that_cannot_be_hashed_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "shared_assets" / ABSENT.replace(":", "-")
    place.mkdir(parents=True)
    (place / "link").symlink_to("nowhere")
    assert found(write(tmp_path)) == [("ASSET_REHASH", f"shared_assets['{ABSENT}']")]


def test_unknown_fields_of_the_manifest_are_oddities(tmp_path: Path) -> None:
    report = validate(write(tmp_path, odd=1, also={}))
    assert [item.where for item in report.warnings] == ["odd", "also"]
    report.raise_for_errors()


def test_a_component_file_that_went_is_an_oddity(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"variants": {}}')
    with modelpackage.open(write(tmp_path, components={"c": "c.json"})) as package:
        (tmp_path / "c.json").unlink()
        assert [item.where for item in validate(package).warnings] == ["components.c"]


def test_only_what_is_asked_for_is_looked_at(tmp_path: Path) -> None:
    components = {"a": {"variants": {}, "odd": 1}}
    write(tmp_path, components=components, odd=1, shared_assets={ABSENT: "nowhere"})
    assert found(tmp_path, Check.SCHEMA) == [("SCHEMA", "components.a.odd")]
    assert found(tmp_path, Check.UNKNOWN_FIELDS) == [("UNKNOWN_FIELDS", "odd")]
    assert found(tmp_path, Check.PATHS) == [("PATHS", f"shared_assets['{ABSENT}']")]
    assert found(tmp_path, Check.ASSET_REHASH) == []
