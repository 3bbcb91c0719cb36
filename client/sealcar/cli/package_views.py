"""Model packages as a person wants to see them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text
from rich.tree import Tree

from sealcar.cli import report, tables

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


def tree(package: modelpackage.Package) -> None:
    """Draw the whole package."""
    title = " ".join(part for part in (package.name or package.root.name, package.version) if part)
    drawn = Tree(_text(f"{title}  ({package.layout}, {package.root})"))
    for component in package.components.values():
        place = "manifest" if component.file is None else component.file.name
        branch = drawn.add(_text(f"{component.name}  ({place})"))
        for variant in component.variants.values():
            _draw(branch, variant)
    if package.shared_assets:
        branch = drawn.add(_text("shared assets"))
        for asset in package.shared_assets.values():
            _draw_files(branch.add(_text(asset.uri)), Path(asset.path))
    Console(highlight=False, soft_wrap=True).print(drawn)


def _draw(branch: Tree, variant: modelpackage.Variant) -> None:
    parts = (variant.ep, variant.device, variant.compatibility)
    made_for = ", ".join(part for part in parts if part) or "never selected: no provider"
    size = report.size(_size(variant.directory))
    leaf = branch.add(_text(f"{variant.name}  ({made_for})  {size}"))
    if variant.directory is None:
        leaf.add(_text("no directory"))
    else:
        _draw_files(leaf, variant.directory)
    for namespace in variant.executor_info:
        leaf.add(_text(f"told to {namespace}"))


def _draw_files(branch: Tree, directory: Path) -> None:
    if not directory.is_dir():
        branch.add(_text("missing" if not directory.exists() else directory.name))
    for file in _files(directory):
        shown = f"{file.relative_to(directory)}  {report.size(file.lstat().st_size)}"
        branch.add(_text(shown))


def _files(directory: Path | None) -> list[Path]:
    if directory is None:
        return []
    found = []
    for above, _, names in os.walk(directory):
        found += [Path(above, name) for name in names]
    return sorted(found)


def _size(directory: Path | None) -> int:
    return sum(file.lstat().st_size for file in _files(directory))


def _text(text: str) -> Text:
    return Text(report.plain(text))


@contextmanager
def hashing(what: str) -> Iterator[modelpackage.Progress]:
    """Show how many bytes are hashed. Draws only on a terminal; yields what to call."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), DownloadColumn())
    with Progress(
        *columns,
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(report.plain(what), total=None)

        def show(files: int, size: int) -> None:
            del files
            bar.update(task, completed=size)

        yield show
