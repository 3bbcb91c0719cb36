"""Which payloads a variant has: every file of it, each in exactly one role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError
from sealcar.names import shown
from sealcar.publish.declared import Reference, named_elsewhere
from sealcar.publish.files import checked_name
from sealcar.publish.models import Around, Place, add_model, beside, is_model
from sealcar.publish.payloads import OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar.modelpackage import Variant
    from sealcar.publish.declared import Declared
    from sealcar.publish.files import SourceFile
    from sealcar.publish.payloads import Payloads


class NoFiles:
    """The tree of a variant that has no directory: all it uses lies in shared assets."""

    def open(self, name: str) -> SourceFile:
        """Refuse.

        Raises:
            InvalidPackageError: always.
        """
        raise InvalidPackageError(f"{shown(name)} does not exist: the variant has no directory")

    def walk(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()


def collect(
    own: Payloads,
    variant: Variant,
    told: Declared,
    assets: Mapping[str, Payloads],
    *,
    keep_inline: bool,
) -> None:
    """Add all files of a variant, models checked, and what it needs of shared assets.

    Args:
        own: of the variant; filled.
        variant: as its package describes it.
        told: what it declares.
        assets: of the package; what models in them refer to is added.
        keep_inline: big initializers stay in their models.

    Raises:
        InvalidPackageError: naming the place and the rule.
    """
    files = _files(own, variant)
    models = [name for name in files if is_model(name)]
    main = told.model or (Reference("", models[0]) if len(models) == 1 else None)
    if main is not None:
        _add_main(own, main, told, assets, None if keep_inline else files)
    for name in models:
        if main != Reference("", name):
            add_model(own, name, beside(own, name), taken=None if keep_inline else files)
    for name in files:
        if name not in own:
            own.add_file(name, OTHER)
    for uri in named_elsewhere(variant, assets):
        _add_copy(own, assets[uri])


def _files(own: Payloads, variant: Variant) -> list[str]:
    # what the manifest says inline isn't needed as a file again
    inlined = {info.file for info in variant.executor_info.values() if info.file}
    directory = variant.directory
    return [
        name for name in own.tree.walk() if directory is None or directory / name not in inlined
    ]


def _add_main(
    own: Payloads,
    model: Reference,
    told: Declared,
    assets: Mapping[str, Payloads],
    taken: list[str] | None,
) -> None:
    """Add the model that ONNX Runtime is told to load, with its files where it is told they are."""

    def home(place: Reference) -> Payloads:
        return assets[place.asset] if place.asset else own

    initializers = told.initializers or model.folder
    blobs = (told.context or model).folder
    around = Around(Place(home(initializers), initializers.path), Place(home(blobs), blobs.path))
    # what is moved lies beside the model: it can't if its files are looked for elsewhere, nor in an
    # asset, whose name stands for its content
    if model.asset or initializers != model.folder:
        taken = None
    if model.path not in home(model).tree.walk():
        where = f"in asset {model.asset}" if model.asset else "among the variant's files"
        raise InvalidPackageError(f"model_file {shown(model.path)} is not {where}")
    add_model(home(model), model.path, around, taken=taken)


def _add_copy(own: Payloads, asset: Payloads) -> None:
    """Add the files of an asset as the variant's own: references of other executors stay."""
    for name in asset.tree.walk():
        copied = checked_name(f"{asset.asset.replace(':', '-', 1)}/{name}")
        if copied in own:
            raise InvalidPackageError(f"{shown(copied)} is the name of a copy of an asset's file")
        file = asset.tree.open(name)
        own.add(copied, OTHER, file.size, file.chunks)
