"""The table of the format's major versions.

`Package` has the shape of the newest. A package of an older one is brought into that shape when it
is parsed, level by level, so that nothing behind the parser knows of more than one shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage.errors import VersionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.modelpackage.json_text import Json
    from sealcar.modelpackage.values import SchemaVersion

    Body = dict[str, Json]


def _as_it_is(body: Body) -> Body:
    return body


@dataclass(frozen=True)
class Schema:
    """One major version of the format.

    Attributes:
        minor: the newest one known; packages of a newer one may have unknown fields.
        manifest, component, variant: the fields of each level.
        newest_manifest, newest_component, newest_variant: bring a level into the newest shape.
    """

    minor: int
    manifest: frozenset[str]
    component: frozenset[str]
    variant: frozenset[str]
    newest_manifest: Callable[[Body], Body] = _as_it_is
    newest_component: Callable[[Body], Body] = _as_it_is
    newest_variant: Callable[[Body], Body] = _as_it_is


NEWEST: Final = 1
# what a new package says
STAMP: Final = "1.0"
SUPPORTED: Final[dict[int, Schema]] = {
    1: Schema(
        minor=0,
        manifest=frozenset(
            {
                "schema_version",
                "components",
                "package_name",
                "package_version",
                "description",
                "layout",
                "shared_assets",
                "additional_metadata",
            }
        ),
        component=frozenset({"variants", "component_name", "additional_metadata"}),
        variant=frozenset(
            {
                "variant_directory",
                "ep",
                "device",
                "compatibility_string",
                "executor_info",
                "additional_metadata",
            }
        ),
    ),
}


def schema_of(version: SchemaVersion, where: str) -> Schema:
    """Return the rules of a version.

    Raises:
        VersionError: not supported.
    """
    schema = SUPPORTED.get(version.major)
    if schema is None:
        supported = ", ".join(map(str, sorted(SUPPORTED)))
        message = f"major version {version.major} is not supported, only {supported}"
        raise VersionError(message, where=where)
    return schema
