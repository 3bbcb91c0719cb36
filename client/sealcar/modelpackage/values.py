"""A model package as it was found: frozen values, in order of declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sealcar.modelpackage.json_text import Json


@dataclass(frozen=True)
class SchemaVersion:
    """Version of the format that a package was written for.

    Attributes:
        major, minor: as understood.
        written: as the manifest has it, a text or an integer; a rewrite keeps it.
    """

    major: int
    minor: int
    written: str | int


@dataclass(frozen=True)
class ExecutorInfo:
    """What one executor is told about a variant.

    Attributes:
        namespace: whose it is, such as `ort`.
        value: parsed.
        text: compact if it stands inline, else the file's text as it is.
        file: where it stands, if not inline.
    """

    namespace: str
    value: Json
    text: str
    file: Path | None = None


@dataclass(frozen=True)
class Variant:
    """One build of a component.

    Attributes:
        name: the key in the component.
        directory: real path of its files; None if it declares none and none of its name exists.
        ep, device, compatibility: what it was built for; None where unset.
        executor_info: by namespace.
        body: the whole variant as parsed, unknown fields included.
    """

    name: str
    directory: Path | None
    ep: str | None
    device: str | None
    compatibility: str | None
    executor_info: Mapping[str, ExecutorInfo]
    body: Mapping[str, Json]


@dataclass(frozen=True)
class Component:
    """One model of a package, in some variants.

    Attributes:
        name: the key in the manifest.
        directory: what its variants' paths are relative to.
        file: the component's own file; None if it stands in the manifest.
        variants: by name, in order of declaration, which decides ties.
        body: the whole component as parsed, unknown fields included.
    """

    name: str
    directory: Path
    file: Path | None
    variants: Mapping[str, Variant]
    body: Mapping[str, Json]


@dataclass(frozen=True)
class SharedAsset:
    """A directory that several variants may refer to by the hash of its content.

    Attributes:
        uri: `sha256:` and 64 lower-case hexadecimal digits.
        path: where it is, or would be: that it exists isn't checked by opening.
    """

    uri: str
    path: str
