"""Random packages that open are saved whole, or refused for a reason; never saved in part."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import package_oracle, package_world
from support.package_manifests import manifests

from sealcar import modelpackage

# links out of the package; a directory that would hold itself
REASONS = (modelpackage.ConfinementError, modelpackage.StateError)
PLACES = (
    "v",
    "d",
    "d/v",
    "link",
    "link/v",
    "d/v/w",
    "over",
    "file",
    "comp",
    "in/../v",
    "../outside",
)
sound_variants = st.dictionaries(
    st.sampled_from(("v", "d/v", "link", "link/v", "none", "one", "two")),
    st.fixed_dictionaries(
        {},
        optional={
            "variant_directory": st.sampled_from(PLACES),
            "executor_info": st.sampled_from(({"own": "info.json"}, {"ort": {}}, {"own": "x"})),
        },
    ),
    max_size=3,
)
# most of these open
sound = st.fixed_dictionaries(
    {
        "components": st.dictionaries(
            st.sampled_from(("a", "b", "d")),
            st.one_of(
                st.sampled_from(("c.json", "comp", "comp/component.json", "./comp/")),
                st.fixed_dictionaries({"variants": sound_variants}),
            ),
            max_size=3,
        )
    },
    optional={"layout": st.sampled_from(("portable", "installed"))},
)
unsound = manifests.filter(lambda manifest: "shared_assets" not in manifest)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = package_world.build(tmp_path_factory.mktemp("saved"))
    # content that isn't what its name says can't be saved at all
    shutil.rmtree(made / "shared_assets")
    return made


def said(package: modelpackage.Package) -> list[Any]:
    """Return what a package says but for places, and what is in them."""
    info: dict[str, Any] = modelpackage.info(package)
    for component in info["components"]:
        for variant in component["variants"]:
            place = variant["variant_directory"]
            variant["variant_directory"] = content(Path(place)) if place else None
    return [info, *package.components]


def content(place: Path) -> Any:  # noqa: ANN401  (a file's, or a directory's)
    if place.is_file():
        return place.read_text()
    # a package that is its own variant has other JSON files
    found = (p for p in place.rglob("*") if p.suffix != ".json" and p.is_file())
    return sorted((str(p.relative_to(place)), p.read_text()) for p in found)


@given(manifest=st.one_of(sound, sound, unsound), mode=st.sampled_from(modelpackage.WriteMode))
@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_what_opens_is_saved_whole_or_refused(
    package: Path, manifest: dict[str, Any], mode: modelpackage.WriteMode
) -> None:
    text = json.dumps({"schema_version": "1.0", **manifest})
    (package / "manifest.json").write_text(text)
    try:
        editor = modelpackage.edit(package)
    except modelpackage.PackageError:
        return
    before = said(editor.package)
    target = package.parent / "target"
    try:
        editor.save_as(target, mode)
    except REASONS:
        assert not target.exists()
        assert (package / "manifest.json").read_text() == text
        return
    try:
        assert said(modelpackage.open(target)) == before
        if package_oracle.AVAILABLE:
            rules = modelpackage.Rules()
            there = package_oracle.native_info(target, rules)
            assert there == package_oracle.our_info(target, rules)
    finally:
        shutil.rmtree(target)
