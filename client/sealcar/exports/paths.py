"""Which paths an exported package has. Those that come off a wire or out of a tar are hostile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sealcar import names
from sealcar.errors import InvalidNameError

MANIFEST: Final = "manifest.json"
ASSETS: Final = "shared_assets"
_ASSET: Final = re.compile(r"sha256-([0-9a-f]{64})")


@dataclass(frozen=True)
class PayloadPath:
    """Where a file belongs.

    Attributes:
        component, variant: empty for a file of a shared asset.
        asset: URI of that asset; else empty.
        name: relative to the variant or asset.
    """

    component: str
    variant: str
    asset: str
    name: str

    def __str__(self) -> str:
        """Return the path."""
        return "/".join((*self.folder, self.name))

    @property
    def folder(self) -> tuple[str, str]:
        """The two directories that it begins with."""
        if self.asset:
            return ASSETS, self.asset.replace(":", "-", 1)
        return self.component, self.variant

    @classmethod
    def parse(cls, path: str) -> PayloadPath:
        """Take a path apart.

        Raises:
            InvalidNameError: no payload of a package lies there.
        """
        first, _, rest = path.partition("/")
        second, _, name = rest.partition("/")
        names.payload(name)
        match = _ASSET.fullmatch(second)
        if first == ASSETS and match:
            return cls("", "", f"sha256:{match[1]}", name)
        return cls(_folder(first, "component"), _folder(second, "variant"), "", name)


def check_path(path: str) -> str:
    """Check the path of a file of an exported package.

    Raises:
        InvalidNameError: no file of a package lies there; it might lead out of the package.
    """
    if path != MANIFEST:
        PayloadPath.parse(path)
    return path


def _folder(name: str, what: str) -> str:
    if names.part(name, f"{what} name").casefold() in names.RESERVED:
        raise InvalidNameError(f"{what} name {names.shown(name)} is a name of the format")
    return name
