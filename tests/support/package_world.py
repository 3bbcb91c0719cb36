"""A directory with everything in it that a package's paths can lead to, and random references."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

ASSET = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
OVERRIDDEN = "sha256:" + "ef" * 32
GONE = "sha256:" + "01" * 32
SEGMENTS = (
    *("v", "d", "w", "link", "out", "x", "dangling", "dangling_out", "loop", "up", "file", "sub"),
    *("leave", "in", "f", ".", "..", "", "none", "none2", "a..", "..a", "é", "x" * 300, "over"),
    *("package", "v\nw", "C:\\x", "~"),
)


def build(base: Path) -> Path:
    """Make the world below a directory; return the package in it."""
    package = base.resolve() / "package"
    asset = f"shared_assets/{ASSET.replace(':', '-')}"
    for name in ("v", "d/v/w", "comp", "over", f"{asset}/sub"):
        (package / name).mkdir(parents=True)
    (package / "shared_assets" / OTHER.replace(":", "-")).mkdir()
    (base / "outside").mkdir()
    (base / "outside" / "x").write_text("{}")
    for link, target in {
        "link": "d",
        "out": "../outside",
        "dangling": "nowhere",
        "dangling_out": "../outside/none",
        "loop": "loop",
        "d/up": "..",
        f"{asset}/leave": "../../d",
        f"{asset}/in": "sub",
    }.items():
        (package / link).symlink_to(target)
    for name, text in {
        "file": "x",
        "c.json": '{"variants": {"v": {"ep": "E"}, "d/v": {}}}',
        "comp/component.json": '{"variants": {}, "component_name": "n"}',
        "bad.json": "{,}",
        "list.json": "\ufeff[1, 2.50]",
        "v/info.json": '{"a" : 1}\n',
        "d/v/info.json": "7",
        f"{asset}/f": "x",
    }.items():
        (package / name).write_text(text)
    return package


def write_manifest(package: Path, layout: str) -> None:
    """Make it a package of no components, with two assets at other places."""
    manifest = {
        "schema_version": "1.0",
        "layout": layout,
        "components": {},
        "shared_assets": {OVERRIDDEN: "over", GONE: "gone/"},
    }
    (package / "manifest.json").write_text(json.dumps(manifest))


def random_reference(random: Random, package: Path) -> str:
    """Return a reference of any kind, mostly ones on the edge of a rule."""
    path = "/".join(random.choice(SEGMENTS) for _ in range(random.randint(1, 5)))
    kind = random.random()
    if kind < 0.4:
        digits = random.choice(["ab" * 32, "cd" * 32, "ef" * 32, "01" * 32, "99" * 32, "AB" * 32])
        return f"sha256:{digits}{random.choice(['', '/', '/', 'x'])}{random.choice(['', path])}"
    if kind < 0.5:
        return random.choice(["/", f"{package}/", f"{package.parent}/", "//"]) + path
    return path


def random_base(random: Random, package: Path) -> str | None:
    """Return a directory that a reference is relative to; often none."""
    named = [str(package / name) for name in ("link", "d/../v", "none", "d/up")]
    others = ["", ".", "v", "nope", "/", "dangling", f"{package}/", str(package.parent)]
    return random.choice([None, None, None, str(package), *named, *others])
