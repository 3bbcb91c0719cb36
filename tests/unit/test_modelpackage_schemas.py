"""A package of an older major version is brought into the newest shape when it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sealcar import modelpackage
from sealcar.modelpackage import schemas
from sealcar.modelpackage.schemas import NEWEST, SUPPORTED, Schema

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.modelpackage import Json

    Body = dict[str, Json]


def test_the_newest_major_is_supported_and_is_the_one_that_new_packages_have() -> None:
    assert max(SUPPORTED) == NEWEST
    assert f"{NEWEST}.{SUPPORTED[NEWEST].minor}" == schemas.STAMP


def test_a_further_major_is_an_entry_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def newest_manifest(body: Body) -> Body:
        return {("components" if key == "models" else key): value for key, value in body.items()}

    def newest_component(body: Body) -> Body:
        return {"variants": body["builds"]}

    old = Schema(
        minor=2,
        manifest=frozenset({"schema_version", "models"}),
        component=frozenset({"builds"}),
        variant=frozenset({"for"}),
        newest_manifest=newest_manifest,
        newest_component=newest_component,
        newest_variant=lambda body: {"ep": body["for"]},
    )
    text = {"schema_version": "0.2", "models": {"m": {"builds": {"b": {"for": "E"}}}}}
    (tmp_path / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(modelpackage.VersionError):
        modelpackage.open(tmp_path)
    monkeypatch.setitem(SUPPORTED, 0, old)
    package = modelpackage.open(tmp_path)
    assert package.schema_version.major == 0
    assert package.components["m"].variants["b"].ep == "E"
    text["models"] = {"m": {"builds": {"b": {"ep": "E"}}}}
    (tmp_path / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(modelpackage.SchemaError, match="unknown"):
        modelpackage.open(tmp_path)


def test_a_package_of_an_older_major_is_saved_in_the_newest_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Schema(
        minor=0,
        manifest=frozenset({"schema_version", "components"}),
        component=frozenset({"builds"}),
        variant=frozenset(),
        newest_component=lambda body: {"variants": body["builds"]},
    )
    monkeypatch.setitem(SUPPORTED, 0, old)
    text = {"schema_version": 0, "components": {"m": {"builds": {"b": {}}}}}
    (tmp_path / "manifest.json").write_text(json.dumps(text))
    with modelpackage.edit(tmp_path) as editor:
        editor.set_metadata(name="n")
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "schema_version": "1.0",
        "components": {"m": {"variants": {"b": {}}}},
        "package_name": "n",
    }
