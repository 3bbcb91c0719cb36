"""What an import will send, checked before the first byte leaves."""

from __future__ import annotations

import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sealcar import modelpackage, names
from sealcar.errors import InvalidNameError, InvalidPackageError, InvalidRequestError, NotFoundError
from sealcar.publish import manifests
from sealcar.publish.sources import SourceTree
from sealcar.publish.variants import PlannedPayload, collect_all, collect_model

if TYPE_CHECKING:
    from types import TracebackType

_STRICT: Final = modelpackage.Rules(unique_keys=True)


@dataclass(frozen=True)
class ImportPlan:
    """Everything that is to be imported. Holds the files open: use it in a `with`, or close it.

    Attributes:
        name: of the package in the store.
        version: in the store; empty: the daemon takes the manifest's, or else 1.
        manifest_json: a manifest in which everything stands inline.
        payloads: in the order in which they are sent.
    """

    name: str
    version: str
    manifest_json: str
    payloads: tuple[PlannedPayload, ...]
    _files: ExitStack = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        """Bytes of all payloads together."""
        return sum(payload.size for payload in self.payloads)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def plan(
    source: Path,
    *,
    name: str | None = None,
    version: str | None = None,
    component: str = "main",
    variant: str = "onnx",
) -> ImportPlan:
    """Plan the import of a model package's directory, or of one ONNX file and what belongs to it.

    Args:
        source: a directory with a manifest, or a model file.
        name: of the package in the store; default: the manifest's, else the file's without its
            ending.
        version: in the store; default: the daemon chooses.
        component: where a single file goes.
        variant: where a single file goes.

    Raises:
        InvalidPackageError: it breaks a rule of packages or ONNX files; names the place and the
        rule. InvalidNameError, InvalidRequestError: a name given, or one that would be chosen,
        doesn't do. NotFoundError: there is nothing. StorageError, ExhaustedError: it can't be read.
    """
    if version:
        names.store_name(version, "package version")
    source = Path(source)
    if _is_directory(source):
        return _package(source, name, version or "")
    _check_scope(component, variant)
    chosen = _store_name(name, source.stem)
    with ExitStack() as files:
        tree = SourceTree(source.parent)
        files.callback(tree.close)
        payloads = collect_model(tree, source.name, component, variant)
        text = manifests.for_model(chosen, version or "", (component, variant), source.name)
        return ImportPlan(chosen, version or "", text, tuple(payloads), files.pop_all())


def _is_directory(source: Path) -> bool:
    try:
        return stat.S_ISDIR(source.stat().st_mode)
    except (OSError, ValueError) as error:
        raise NotFoundError(f"{names.shown(str(source))} can't be found") from error


def _package(root: Path, name: str | None, version: str) -> ImportPlan:
    try:
        package = modelpackage.open(root, _STRICT)
    except modelpackage.PackageError as error:
        raise InvalidPackageError(str(error)) from error
    manifests.check(package)
    chosen = _store_name(name, package.name, package.root.name)
    payloads: list[PlannedPayload] = []
    with ExitStack() as files:
        for component in package.components.values():
            for variant in component.variants.values():
                _check_scope(component.name, variant.name)
                tree = _tree(package, component.name, variant)
                files.callback(tree.close)
                payloads += collect_all(tree, component.name, variant)
        if not payloads:
            raise InvalidPackageError("the package has no files")
        text = manifests.inlined(package)
        return ImportPlan(chosen, version, text, tuple(payloads), files.pop_all())


def _tree(
    package: modelpackage.Package, component: str, variant: modelpackage.Variant
) -> SourceTree:
    if variant.directory is None:
        raise InvalidPackageError("the variant has no directory").at(
            component=component, variant=variant.name
        )
    return SourceTree(package.root, variant.directory.relative_to(package.root).parts)


def _check_scope(component: str, variant: str) -> None:
    names.part(component, "component name")
    names.part(variant, "variant name")
    if component.casefold() in names.RESERVED:
        raise InvalidNameError(f"component name {names.shown(component)} is a name of the format")


def _store_name(given: str | None, *proposals: str | None) -> str:
    if given is not None:
        return names.store_name(given)
    for proposal in proposals:
        if proposal:
            try:
                return names.store_name(proposal.lower())
            except InvalidNameError:
                continue
    raise InvalidRequestError("no package name follows from the source; give one")
