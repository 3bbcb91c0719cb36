"""A sealed export on its way back into a store: what its seal record names, and no other file.

Nothing of the record can be checked here. The daemon does that, before anything appears.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from sealcar import names
from sealcar.errors import InvalidNameError, InvalidPackageError, NotFoundError
from sealcar.exports.paths import ASSETS, MANIFEST, PayloadPath
from sealcar.names import shown
from sealcar.publish import archives
from sealcar.publish.manifests import checked_size
from sealcar.publish.payloads import PlannedPayload
from sealcar.publish.plan import ImportPlan, is_directory
from sealcar.publish.sources import SourceTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.publish.files import SourceFile

_MOST: Final = 16 << 20  # of a manifest in a store
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Sealed(Protocol):
    """A file of an export."""

    @property
    def size(self) -> int:
        """In bytes."""

    def chunks(self) -> Iterator[bytes]:
        """Yield it, in pieces of at most 1 MiB."""


class Source(Protocol):
    """Where an export lies."""

    def manifest(self) -> bytes:
        """Return its manifest; empty: there is none."""

    def open(self, path: PayloadPath) -> Sealed:
        """Return a file.

        Raises:
            InvalidPackageError, NotFoundError: there is none.
        """


def sealed_plan(
    source: Path, *, name: str | None = None, version: str | None = None
) -> ImportPlan | None:
    """Plan the import of a sealed export, a directory or a tar; None: it isn't one.

    Args:
        source: the directory or tar.
        name: of the package in the store; default: its own. Only what somebody else sent can get
            another one; the daemon knows.
        version: in the store, likewise.

    Raises:
        InvalidPackageError: its record is none, or a file that it names is missing.
        InvalidNameError: no package can have such a name or version. NotFoundError: there is none.
        StorageError, ExhaustedError: it can't be read.
    """
    source = Path(source)
    with ExitStack() as files:
        opened = _opened(source, files)
        if opened is None:
            return None
        return plan_of(opened, files, name=name, version=version)


def plan_of(
    source: Source, files: ExitStack, *, name: str | None = None, version: str | None = None
) -> ImportPlan | None:
    """Plan the import of a sealed export, wherever it lies; None: it isn't one.

    Args:
        source: where it lies.
        files: taken over by the plan, which closes them, once there is one.
        name: of the package in the store, as for `sealed_plan`.
        version: in the store, likewise.

    Raises:
        InvalidPackageError: its record is none, or a file that it names is missing.
        InvalidNameError: no package can have such a name or version.
    """
    raw = source.manifest()
    try:
        manifest = raw.decode()
    except UnicodeDecodeError:
        return None  # no daemon wrote it
    record = _record(manifest)
    if record is None:
        return None
    payloads = [_planned(source, *found) for found in _named(record)]
    own = _store_name(record, "name"), _store_name(record, "version")
    chosen = (
        own[0] if name is None else names.store_name(name),
        names.store_name(version, "package version") if version else own[1],
    )
    return ImportPlan(*chosen, manifest, tuple(payloads), files.pop_all())


class _Folder:
    """An export in a directory, or a generation out of a copy of a store."""

    def __init__(self, root: Path, files: ExitStack) -> None:
        self._root, self._files = root, files
        self._trees: dict[tuple[str, str], SourceTree] = {}

    def manifest(self) -> bytes:
        # what can't be read, or is a link, is no export; whoever reads plain packages says more
        try:
            fd = os.open(self._root / MANIFEST, _READ)
        except OSError:
            return b""
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read(_MOST)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def open(self, path: PayloadPath) -> SourceFile:
        parts = path.folder
        if parts not in self._trees:
            self._trees[parts] = tree = SourceTree(self._root, parts)
            self._files.callback(tree.close)
        # copies of stores share files, and what came in isn't believed before it is checked
        return self._trees[parts].open(path.name, named_by_caller=True)


class _Tar:
    """An export in a tar: at its top, or in the one directory there."""

    def __init__(self, file: SourceFile) -> None:
        self._archive = archives.Archive(file)
        tops = self._archive.tops()
        only = f"{min(tops)}/" if len(tops) == 1 else ""
        self._top = "" if self._archive.is_file(MANIFEST) else only

    def manifest(self) -> bytes:
        name = self._top + MANIFEST
        if not self._archive.is_file(name):
            return b""
        return self._archive.open(name, MANIFEST).read(_MOST)

    def open(self, path: PayloadPath) -> SourceFile:
        return self._archive.open(f"{self._top}{path}", str(path))


def _opened(source: Path, files: ExitStack) -> Source | None:
    if is_directory(source):
        return _Folder(source, files)
    tree = SourceTree(source.parent)
    files.callback(tree.close)
    file = tree.open(source.name, named_by_caller=True)
    return _Tar(file) if archives.is_archive(file) else None


def _record(manifest: str) -> dict[str, Any] | None:
    """Return what the record says; None if there is none."""
    try:
        value = json.loads(manifest)
        metadata = value.get("additional_metadata") if isinstance(value, dict) else None
        sealed = metadata.get("sealcar") if isinstance(metadata, dict) else None
    except (ValueError, RecursionError):
        return None  # no package at all, of which others say more
    if sealed is None:
        return None
    checked_size(manifest)
    try:
        text = sealed["record"]
        record = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _wrong("can't be read") from error
    if not isinstance(record, dict):
        raise _wrong("is no object")
    return record


def _named(record: dict[str, Any]) -> Iterator[tuple[PayloadPath, str]]:
    """Yield path and kind of each payload."""
    for variant in _objects(record, "variants"):
        component, name = _text(variant, "component"), _text(variant, "variant")
        for payload in _objects(variant, "payloads"):
            path = f"{component}/{name}/{_text(payload, 'name')}"
            yield _checked(path, (component, name), shared=False), _text(payload, "kind")
    for asset in _objects(record, "assets"):
        folder = _text(asset, "uri").replace(":", "-", 1)
        for payload in _objects(asset, "payloads"):
            path = f"{ASSETS}/{folder}/{_text(payload, 'name')}"
            yield _checked(path, (ASSETS, folder), shared=True), _text(payload, "kind")


def _checked(path: str, folder: tuple[str, str], *, shared: bool) -> PayloadPath:
    try:
        found = PayloadPath.parse(path)
    except InvalidNameError as error:
        raise _wrong(f"names a bad path: {error.message}") from error
    # a name with "/" in it would have been taken apart elsewhere
    if found.folder != folder or bool(found.asset) is not shared:
        raise _wrong(f"names a bad path: {shown(path)}")
    return found


def _planned(opened: Source, path: PayloadPath, kind: str) -> PlannedPayload:
    try:
        file = opened.open(path)
    except (InvalidPackageError, NotFoundError) as error:
        raise InvalidPackageError(f"a file of the export is missing: {error.message}") from error
    return PlannedPayload(
        path.component, path.variant, path.name, kind, file.size, file.chunks, path.asset
    )


def _objects(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = value.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise _wrong(f"must have objects in {name}")
    return found


def _store_name(record: dict[str, Any], name: str) -> str:
    try:
        return names.store_name(_text(record, name), f"package {name}")
    except InvalidNameError as error:
        raise _wrong(f"names no package: {error.message}") from error


def _text(value: dict[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise _wrong(f"must have a text as {name}")
    return found


def _wrong(finding: str) -> InvalidPackageError:
    return InvalidPackageError(f"the seal record of the export {finding}")
