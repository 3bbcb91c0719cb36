"""Finishes what a commit left over when its process died.

A commit that changes several things first writes all of them under names with `.commit.` and 16
hexadecimal digits, then a manifest that refers to those, which is the switch, then the same under
the final names, and a manifest that refers to them. So every manifest that was ever in place is
whole. What a dead process leaves is a manifest of the second kind, or files that none refers to.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.modelpackage import removals, writing
from sealcar.modelpackage.assets import DIRECTORY, FOLDER, KEY
from sealcar.modelpackage.files import folder, read_document
from sealcar.modelpackage.json_text import Json, document
from sealcar.modelpackage.reader import COMPONENTS, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.modelpackage.package import Package


@dataclass(frozen=True)
class Staged:
    """Something that is whole under a temporary name.

    Attributes:
        above: the directory that holds it.
        name: the temporary name.
        final: the other one.
    """

    above: str
    name: str
    final: str


@dataclass(frozen=True)
class Switch:
    """The second half of a commit, once a manifest refers to what was staged.

    Attributes:
        files: components.
        assets: directories.
        manifest: refers to the final names.
    """

    files: tuple[Staged, ...]
    assets: tuple[Staged, ...]
    manifest: bytes


def settle(root: int, switch: Switch) -> None:
    """Bring everything that was staged to its final name.

    Raises:
        OSError: it can't be; the package is whole all the same.
    """
    for item in switch.files:
        with folder(item.above) as above:
            data = read_document(f"{item.above}/{item.name}", 1 << 40)
            writing.replace(above, item.final, data)
    for item in switch.assets:
        with folder(item.above) as above:
            _place_asset(above, item)
    writing.replace(root, MANIFEST, switch.manifest)
    for item in (*switch.files, *switch.assets):
        with folder(item.above) as above:
            writing.remove_tree(above, item.name)


def _place_asset(above: int, item: Staged) -> None:
    if _is_there(above, item.final):
        return
    temporary = f"{item.final}{writing.STAGED}{writing.token()}"
    os.mkdir(temporary, dir_fd=above)
    with folder(item.name, above) as source, folder(temporary, above) as target:
        writing.copy_tree(source, target, linking=True)
    os.rename(temporary, item.final, src_dir_fd=above, dst_dir_fd=above)
    os.fsync(above)


def _is_there(above: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def unfinished(package: Package) -> Switch | None:
    """Return what a dead process left to do, if the manifest refers to staged names."""
    manifest = dict(package.manifest)
    root = str(package.root)
    files, listed = [], dict(_table(manifest, COMPONENTS))
    for name, component in package.components.items():
        file = component.file
        if file and (final := writing.final_name(file.name)):
            files.append(Staged(str(file.parent), file.name, final))
            listed[name] = os.path.relpath(file.with_name(final), root)
    assets, declared = [], dict(_table(manifest, KEY))
    for uri, asset in package.shared_assets.items():
        above, _, name = asset.path.rpartition("/")
        final = writing.final_name(name)
        if final and above == f"{root}/{DIRECTORY}" and FOLDER.fullmatch(final):
            assets.append(Staged(above, name, final))
            del declared[uri]
    if not files and not assets:
        return None
    settled = {**manifest, COMPONENTS: listed} | ({KEY: declared} if assets else {})
    return Switch(tuple(files), tuple(assets), document(settled))


def _table(manifest: dict[str, Json], key: str) -> dict[str, Json]:
    value = manifest.get(key)
    return value if isinstance(value, dict) else {}


def recover(root: int, package: Package) -> None:
    """Finish or clear away what dead commits left over.

    Raises:
        OSError: it can't be; the package is as whole as before.
        PackageError: what was staged can't be read.
    """
    removals.finish(root, package)
    switch = unfinished(package)
    if switch:
        settle(root, switch)
    _sweep(root, package)


def _sweep(root: int, package: Package) -> None:
    places: dict[str, set[str]] = {str(package.root): {MANIFEST}}
    for component in package.components.values():
        file = component.file
        if file:
            names = places.setdefault(str(file.parent), set())
            names.add(writing.final_name(file.name) or file.name)
    for place, names in places.items():
        with suppress(FileNotFoundError), folder(place) as above:
            _delete(above, names.__contains__)
    with suppress(FileNotFoundError), folder(DIRECTORY, root) as above:
        _delete(above, lambda name: bool(FOLDER.fullmatch(name)))


def _delete(above: int, is_final: Callable[[str], bool]) -> None:
    for name in os.listdir(above):
        final = writing.final_name(name)
        if final and is_final(final):
            writing.remove_tree(above, name)
