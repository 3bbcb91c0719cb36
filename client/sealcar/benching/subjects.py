"""What is measured: a model as it lies on the disk, and as it is in a store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar import publish
from sealcar.errors import InvalidPackageError, InvalidRequestError
from sealcar.names import shown
from sealcar.ort import placing, plain, scopes
from sealcar.publish.plan import is_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sealcar.modelpackage import Variant
    from sealcar.publish.payloads import PlannedPayload

NAME: Final = "bench"
_COMPONENT: Final = "main"
_VARIANT: Final = "onnx"
_PIECE: Final = 1 << 20
_RESOLVED: Final = (scopes.WEIGHTS_FOLDER, scopes.CONTEXT_FILE)


@dataclass(frozen=True)
class Subject:
    """A model.

    Attributes:
        source: what `publish.plan` takes.
        component, variant: of the package, or those that a bare model gets.
        model: its file.
        files: those beside it: external data, blobs.
        sealed: kind and size of each payload of the variant, by its name.
        ep: execution provider that the variant is for; empty: any.
        session_options, provider_options: that come with the package.
        keep_inline: weights stay in the model when it is sealed.
    """

    source: Path
    component: str
    variant: str
    model: Path
    files: tuple[Path, ...]
    sealed: Mapping[str, tuple[str, int]]
    ep: str = ""
    session_options: Mapping[str, str] = field(default_factory=dict)
    provider_options: Mapping[str, str] = field(default_factory=dict)
    keep_inline: bool = False

    @property
    def size(self) -> int:
        """Bytes of the model and of all that belongs to it."""
        return sum(size for _, size in self.sealed.values())

    @property
    def weights(self) -> int:
        """Bytes of payloads that workers can share."""
        own = self.sealed[self.in_place][1] if self.in_place else 0
        return own + sum(size for kind, size in self.sealed.values() if kind == "initializers")

    @property
    def in_place(self) -> str:
        """Payload of a model that the runtime uses where it lies, weights and all; else empty."""
        wanted = (
            name
            for name, (kind, size) in self.sealed.items()
            if kind == "model" and name.endswith(placing.SUFFIX) and size >= placing.LEAST
        )
        return next(wanted, "")

    @property
    def compiled(self) -> bool:
        """Whether an execution provider has compiled it, and left blobs beside it."""
        return any(kind == "blob" for kind, _ in self.sealed.values())

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each plain file."""
        return {path.name: _digest(path) for path in (self.model, *self.files)}


def find(
    path: Path, component: str | None, variant: str | None, *, keep_inline: bool = False
) -> Subject:
    """Find a model in a file, or in the directory of a plain package.

    Args:
        path: of it.
        component: of a package that has several.
        variant: of a component that has several.
        keep_inline: its weights stay in it when it is sealed.

    Raises:
        InvalidRequestError: a bare model has no components, or it is an archive.
        SealcarError: it is none, or breaks a rule.
    """
    if is_directory(path):
        return _in_package(path, component, variant)
    if component or variant:
        raise InvalidRequestError("--component and --variant are for packages; leave them out")
    with publish.plan(path, name=NAME, keep_inline=True) as planned:
        beside = [one for one in planned.payloads if one.name != path.name]
    with publish.plan(path, name=NAME, keep_inline=keep_inline) as planned:
        sealed = _sealed(planned.payloads, _COMPONENT, _VARIANT)
    if path.name not in sealed:
        raise InvalidRequestError(f"{shown(str(path))} is an archive; give its directory, unpacked")
    files = tuple(path.parent / one.name for one in beside)
    return Subject(path, _COMPONENT, _VARIANT, path, files, sealed, keep_inline=keep_inline)


def _in_package(path: Path, component: str | None, variant: str | None) -> Subject:
    package = plain.open_package(path)
    named, found = plain.find_variant(package, component, variant)
    with publish.plan(path, name=NAME) as planned:
        sealed = _sealed(planned.payloads, named, found.name)
    folder = found.directory or package.root
    model = folder / _model_name(found, sealed)
    files = [folder / name for name, (kind, _) in sealed.items() if kind != "model"]
    if not model.is_file():
        raise InvalidPackageError(
            f"the model of {named}/{found.name} doesn't lie in the variant's own folder, so ONNX "
            "Runtime can't be given its path; give the model's file"
        )
    return Subject(
        path,
        named,
        found.name,
        model,
        tuple(each for each in files if each.is_file()),
        sealed,
        found.ep or "",
        _options(found, scopes.SESSION_OPTIONS),
        _options(found, scopes.PROVIDER_OPTIONS),
    )


def _sealed(
    payloads: tuple[PlannedPayload, ...], component: str, variant: str
) -> dict[str, tuple[str, int]]:
    return {
        one.name: (one.kind, one.size)
        for one in payloads
        if (one.component, one.variant) == (component, variant)
    }


def _told(variant: Variant) -> Mapping[str, object]:
    info = variant.executor_info.get(scopes.NAMESPACE)
    return info.value if info is not None and isinstance(info.value, dict) else {}


def _model_name(variant: Variant, sealed: Mapping[str, tuple[str, int]]) -> str:
    named = _told(variant).get("model_file")
    if isinstance(named, str):
        return named
    return next((name for name, (kind, _) in sealed.items() if kind == "model"), "")


def _options(variant: Variant, key: str) -> dict[str, str]:
    found = _told(variant).get(key, {})
    given = found.items() if isinstance(found, dict) else ()
    return {str(name): str(value) for name, value in given if name not in _RESOLVED}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
