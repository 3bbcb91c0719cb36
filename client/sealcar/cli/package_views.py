"""Model packages in plain directories as a person wants to see them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sealcar.cli import drawing, report, tables
from sealcar.cli.drawing import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import modelpackage


def table(package: modelpackage.Package) -> None:
    """Print a line for each variant."""
    rows = [
        [
            f"{component.name}/{variant.name}",
            variant.ep or "",
            variant.device or "",
            variant.compatibility or "",
            len(_files(variant.directory)),
            report.size(_size(variant.directory)),
        ]
        for component in package.components.values()
        for variant in component.variants.values()
    ]
    tables.show(["variant", "ep", "device", "compatibility", "files", "size"], rows)


def described(package: modelpackage.Package) -> dict[str, Any]:
    """Return all that `tree` draws, as one JSON object."""
    return {
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "layout": package.layout,
        "root": str(package.root),
        "components": [
            {
                "name": component.name,
                "file": None if component.file is None else component.file.name,
                "variants": [_described(each) for each in component.variants.values()],
            }
            for component in package.components.values()
        ],
        "shared_assets": [
            {"uri": each.uri, "path": each.path, "files": _listed(Path(each.path))}
            for each in package.shared_assets.values()
        ],
    }


def tree(package: modelpackage.Package) -> None:
    """Draw the whole package."""
    title = " ".join(part for part in (package.name or package.root.name, package.version) if part)
    components = tuple(
        drawing.component(
            component.name,
            "manifest" if component.file is None else component.file.name,
            map(_variant, component.variants.values()),
        )
        for component in package.components.values()
    )
    shared = [(each.uri, _drawn(Path(each.path))) for each in package.shared_assets.values()]
    about = f"{title}  (plain, {package.layout}, {package.root})"
    drawing.draw(Node(about, components + drawing.assets(shared)))


def _described(variant: modelpackage.Variant) -> dict[str, Any]:
    return {
        "name": variant.name,
        "ep": variant.ep,
        "device": variant.device,
        "compatibility": variant.compatibility,
        "executor_info": {name: each.value for name, each in variant.executor_info.items()},
        "directory": None if variant.directory is None else str(variant.directory),
        "files": _listed(variant.directory),
        "size": _size(variant.directory),
    }


def _listed(directory: Path | None) -> list[dict[str, Any]]:
    return [
        {"name": str(found.relative_to(directory or "")), "size": found.lstat().st_size}
        for found in _files(directory)
    ]


def _variant(variant: modelpackage.Variant) -> Node:
    made_for = (variant.ep, variant.device, variant.compatibility)
    directory = variant.directory
    files = [Node("no directory")] if directory is None else list(_drawn(directory))
    told = [Node(f"told to {namespace}") for namespace in variant.executor_info]
    size = report.size(_size(directory))
    return drawing.variant(variant.name, made_for, size, files + told)


def _drawn(directory: Path) -> Iterator[Node]:
    if not directory.is_dir():
        yield Node("missing" if not directory.exists() else directory.name)
    for found in _files(directory):
        yield drawing.file(str(found.relative_to(directory)), found.lstat().st_size)


def _files(directory: Path | None) -> list[Path]:
    if directory is None:
        return []
    found = []
    for above, _, names in os.walk(directory):
        found += [Path(above, name) for name in names]
    return sorted(found)


def _size(directory: Path | None) -> int:
    return sum(found.lstat().st_size for found in _files(directory))
