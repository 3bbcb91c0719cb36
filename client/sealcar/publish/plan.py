"""What an import will send, checked before the first byte leaves."""

from __future__ import annotations

import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar import names
from sealcar.closing import Closing
from sealcar.errors import InvalidNameError, InvalidPackageError, InvalidRequestError, NotFoundError
from sealcar.publish import archives, assets, manifests, packages
from sealcar.publish.declared import declared
from sealcar.publish.files import checked_name
from sealcar.publish.models import add_model, beside
from sealcar.publish.payloads import Payloads, PlannedPayload
from sealcar.publish.sources import SourceTree
from sealcar.publish.variants import NoFiles, collect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar.modelpackage import Variant
    from sealcar.publish.packages import OpenedPackage


@dataclass(frozen=True)
class ImportPlan(Closing):
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


def plan(
    source: Path,
    *,
    name: str | None = None,
    version: str | None = None,
    component: str = "main",
    variant: str = "onnx",
    keep_inline: bool = False,
) -> ImportPlan:
    """Plan the import of a model package, or of one model and what belongs to it.

    Args:
        source: a directory with a manifest, a tar archive of one, or a model's file: ONNX, or ONNX
            Runtime's own format.
        name: of the package in the store; default: the manifest's, else the file's without its
            ending.
        version: in the store; default: the daemon chooses.
        component: where a single file goes.
        variant: where a single file goes.
        keep_inline: initializers of 64 KiB and more stay in their models. Otherwise they move into
            a payload of their own, so that they can be mapped and shared.

    Raises:
        InvalidPackageError: it breaks a rule of packages or ONNX files; names the place and the
        rule. InvalidNameError, InvalidRequestError: a name given, or one that would be chosen,
        doesn't do. NotFoundError: there is nothing. StorageError, ExhaustedError: it can't be read.
    """
    if version:
        names.store_name(version, "package version")
    source = Path(source)
    with ExitStack() as files:
        if is_directory(source):
            opened = packages.open_directory(source, files)
            chosen = _store_name(name, opened.package.name, opened.package.root.name)
            return _package(opened, (chosen, version or ""), files, keep_inline=keep_inline)
        tree = SourceTree(source.parent)
        files.callback(tree.close)
        file = tree.open(source.name, named_by_caller=True)
        if archives.is_archive(file):
            opened = packages.open_archive(file, source)
            chosen = _store_name(name, opened.package.name, source.stem)
            return _package(opened, (chosen, version or ""), files, keep_inline=keep_inline)
        _check_scope(component, variant)
        checked_name(source.name)
        chosen = _store_name(name, source.stem)
        payloads = Payloads(tree, component, variant)
        around = beside(payloads, source.name)
        add_model(payloads, source.name, around, taken=None if keep_inline else ())
        text = manifests.for_model(chosen, version or "", (component, variant), source.name)
        return ImportPlan(chosen, version or "", text, tuple(payloads.all()), files.pop_all())


def is_directory(source: Path) -> bool:
    """Tell whether a package is in a directory, rather than in a file.

    Raises:
        NotFoundError: it is nowhere, or can't be looked at.
    """
    try:
        return stat.S_ISDIR(source.stat().st_mode)
    except (OSError, ValueError) as error:
        raise NotFoundError(f"{names.shown(str(source))} can't be found") from error


def _package(
    opened: OpenedPackage, named: tuple[str, str], files: ExitStack, *, keep_inline: bool
) -> ImportPlan:
    package = opened.package
    manifests.check(package)
    shared = assets.open_assets(opened)
    variants = list(_variants(opened, shared, keep_inline=keep_inline))
    for asset in shared.values():
        assets.finish(asset)
    payloads = [item for found in (*shared.values(), *variants) for item in found.all()]
    if not payloads:
        raise InvalidPackageError("the package has no files")
    text = manifests.inlined(package)
    return ImportPlan(*named, text, tuple(payloads), files.pop_all())


def _variants(
    opened: OpenedPackage, shared: Mapping[str, Payloads], *, keep_inline: bool
) -> Iterator[Payloads]:
    """Yield the payloads of each variant; what models of theirs use of assets is added to these."""
    for component in opened.package.components.values():
        for variant in component.variants.values():
            _check_scope(component.name, variant.name)
            try:
                yield _variant(opened, component.name, variant, shared, keep_inline=keep_inline)
            except InvalidPackageError as error:
                raise error.at(component=component.name, variant=variant.name) from None


def _variant(
    opened: OpenedPackage,
    component: str,
    variant: Variant,
    shared: Mapping[str, Payloads],
    *,
    keep_inline: bool,
) -> Payloads:
    told = declared(variant, shared)
    if variant.directory is None and not told.assets:
        raise InvalidPackageError("the variant has no directory")
    tree = NoFiles() if variant.directory is None else opened.tree(variant.directory)
    own = Payloads(tree, component, variant.name)
    collect(own, variant, told, shared, keep_inline=keep_inline)
    return own


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
