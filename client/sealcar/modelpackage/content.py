"""The content of a package as it is written to a new directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage import shapes, writing
from sealcar.modelpackage.assets import DIRECTORY as ASSETS
from sealcar.modelpackage.assets import KEY, folder_name
from sealcar.modelpackage.committing import copy_asset
from sealcar.modelpackage.copying import copy_into
from sealcar.modelpackage.edits import VARIANTS
from sealcar.modelpackage.errors import MissingError
from sealcar.modelpackage.files import folder
from sealcar.modelpackage.json_text import Json, compact, document
from sealcar.modelpackage.parts import COMPONENT, DIRECTORY, EXECUTOR_INFO
from sealcar.modelpackage.paths import is_there, normal
from sealcar.modelpackage.reader import COMPONENTS, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.modelpackage.package import Package
    from sealcar.modelpackage.values import Component, Variant

_OUTSIDE: Final = "from_outside"


class Content:
    """What a package consists of, wherever it is now.

    Everything keeps its path in the package. What an installed package has outside of itself gets
    one inside, and the references to it follow.

    Args:
        package: that is to be saved; it opens as it is.
    """

    def __init__(self, package: Package) -> None:
        self._package = package
        self._within = "/" if package.paths.external else package.paths.root
        self._names = " ".join(_names(package))
        self._taken = 0

    def write(self, target: int) -> None:
        """Write it into an empty directory, the manifest last.

        Raises:
            PackageError: a part of it is missing, or isn't what it should be.
            OSError: it can't be written.
        """
        self._write_assets(target)
        listed: dict[str, Json] = {}
        for name, component in self._package.components.items():
            listed[name] = self._write_component(target, component)
        manifest = {key: value for key, value in self._package.manifest.items() if key != KEY}
        writing.sync_tree(target)
        writing.replace(target, MANIFEST, document({**manifest, COMPONENTS: listed}))

    def _write_assets(self, target: int) -> None:
        for uri, asset in self._package.shared_assets.items():
            if not is_there(asset.path):
                raise MissingError(f"{asset.path!a} does not exist", where=shapes.member(KEY, uri))
            writing.make_folders(ASSETS, target)
            with folder(ASSETS, target) as above:
                copy_asset(uri, asset.path, above, folder_name(uri))

    def _write_component(self, target: int, component: Component) -> Json:
        if component.file is None:
            return self._body(target, component, "")
        listed = self._package.manifest[COMPONENTS]
        reference = str(shapes.an_object(listed, COMPONENTS)[component.name])
        if not self._is_inside(reference):
            reference = f"{self._outside()}/{component.file.name}"
            path = reference
        elif component.file.name == COMPONENT and _is_folder(self._package, reference):
            path = f"{reference}/{COMPONENT}"
        else:
            path = reference
        above, _, name = normal(path).rpartition("/")
        writing.make_folders(above, target)
        body = self._body(target, component, above)
        with folder(above, target) as directory:
            writing.replace(directory, name, document(body))
        return reference

    def _body(self, target: int, component: Component, above: str) -> Json:
        variants: Json = {
            name: self._write_variant(target, variant, above)
            for name, variant in component.variants.items()
        }
        return {**component.body, VARIANTS: variants}

    def _write_variant(self, target: int, variant: Variant, above: str) -> Json:
        body = dict(variant.body)
        if variant.directory is None:
            return body
        text = body.get(DIRECTORY, variant.name)
        if not isinstance(text, str) or not self._is_inside(text):
            body[DIRECTORY] = text = self._outside()
        place = normal(f"{above}/{text}" if above else text).rstrip("/")
        copy_into(str(variant.directory), target, place, within=self._within)
        infos = body.get(EXECUTOR_INFO)
        if isinstance(infos, dict):
            body[EXECUTOR_INFO] = self._write_infos(target, variant, infos, place)
        return body

    def _write_infos(
        self, target: int, variant: Variant, infos: dict[str, Json], place: str
    ) -> Json:
        written: dict[str, Json] = {}
        for namespace, info in infos.items():
            file = variant.executor_info[namespace].file
            written[namespace] = info
            if not isinstance(info, str) or file is None:
                continue
            text = info if self._is_inside(info) else f"{self._outside()}.json"
            written[namespace] = text
            copy_into(str(file), target, normal(f"{place}/{text}"), within=self._within)
        return written

    def _outside(self) -> str:
        while True:
            self._taken += 1
            name = f"{_OUTSIDE}_{self._taken}"
            if name not in self._names:
                return name

    def _is_inside(self, text: str) -> bool:
        return not text.startswith("/") and ".." not in text.split("/")


def _names(package: Package) -> Iterator[str]:
    """Yield all texts that are, or hold, names of files in the package."""
    for component in package.components.values():
        yield component.name
        yield str(component.file)
        for variant in component.variants.values():
            yield variant.name
            yield compact(dict(variant.body))


def _is_folder(package: Package, reference: str) -> bool:
    return os.path.isdir(f"{package.root}/{reference}")  # noqa: PTH112  (paths are text here)
