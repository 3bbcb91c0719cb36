"""What random edits of a package are made of, and the package that they are made to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from support.package_manifests import metadata

if TYPE_CHECKING:
    from pathlib import Path

COMPONENTS = ("main", "second", "d")
VARIANTS = ("v", "w", "cpu", "sub/v")
NAMESPACES = ("ort", "own")
PATHS = (
    *(
        "v",
        "w",
        "d",
        "d/v",
        "d/w",
        "fresh",
        "fresh/c.json",
        "d/component.json",
        "c.json",
        "bad.json",
    ),
    *("../x", "/proc/nowhere", "", ".", "link", "info.json", "none.json", "list.json", "bad.json"),
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "ep": st.sampled_from(["CPUExecutionProvider", "", 1]),
        "device": st.sampled_from(["cpu", "gpu"]),
        "compatibility_string": st.just("x"),
        "variant_directory": st.sampled_from(PATHS),
        "executor_info": st.dictionaries(
            st.sampled_from(NAMESPACES),
            st.one_of(st.just({"model_file": "m"}), st.sampled_from(["info.json", "none.json"])),
            max_size=2,
        ),
        "additional_metadata": metadata,
    },
)
unknown = st.just({"unknown": 1})
variant_bodies: st.SearchStrategy[dict[str, Any]] = st.one_of(
    bodies, bodies, bodies, unknown, st.just({})
)
component_bodies = st.one_of(
    st.fixed_dictionaries(
        {"variants": st.dictionaries(st.sampled_from(VARIANTS), variant_bodies, max_size=2)},
        optional={"component_name": st.just("n"), "additional_metadata": metadata},
    ),
    st.just({"variants": {}, "unknown": 1}),
    st.just({}),
)
components = st.sampled_from(COMPONENTS)
variants = st.sampled_from(VARIANTS)
namespaces = st.sampled_from(NAMESPACES)
assets = st.sampled_from(["asset", "other", "empty", "missing", "linked", "has_link", "file"])


def plant(root: Path) -> None:
    """Make a package with components of every form, and directories that it doesn't use."""
    for name in ("v", "w", "d/v", "d/w", "d/sub/v", "cpu"):
        (root / name).mkdir(parents=True)
        (root / name / "info.json").write_text('{"a": 1}')
    for name, value in {
        "manifest.json": {
            "schema_version": "1.0",
            "components": {"main": {"variants": {"v": {}, "w": {"ep": "E"}}}, "d": "d"},
            "package_name": "n",
        },
        "d/component.json": {"variants": {"v": {"executor_info": {"own": "info.json"}}, "w": {}}},
        "c.json": {"variants": {"cpu": {}}},
        "list.json": [],
    }.items():
        (root / name).write_text(json.dumps(value))
    (root / "bad.json").write_text("{")
    (root / "v" / "bad.json").write_text("{")
    (root / "link").symlink_to("d")


def plant_assets(base: Path) -> None:
    """Make directories that can and can't be shared assets."""
    for name in ("asset/deep", "other", "empty", "has_link"):
        (base / name).mkdir(parents=True)
    (base / "asset" / "deep" / "f").write_text("f")
    (base / "other" / "g").write_text("g")
    (base / "has_link" / "link").symlink_to("nowhere")
    (base / "linked").symlink_to("asset")
    (base / "file").write_text("x")


def tree(root: Path) -> dict[str, str]:
    """Return everything in a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = path.read_text() if path.is_file() else "/"
    return found


def different(mine: dict[str, str], its: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return what two trees don't have in common."""
    return {
        name: (mine.get(name, ""), its.get(name, ""))
        for name in {**mine, **its}
        if mine.get(name) != its.get(name)
    }
