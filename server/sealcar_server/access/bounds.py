"""What holds for packages whoever calls: pins against rollbacks, and quotas of the store.

    [[pin]]
    package = "ocr"                 # * and ? match as in a shell
    version = "1.2"                 # optional, likewise; every version if left out
    min_generation = 7              # no older one is opened

    [[quota]]
    packages = ["team-a-*"]
    bytes = "50GiB"                 # that all of these packages together may take

Several pins may be about one version: the highest number holds. Every quota that is about a package
holds. Files have no owner, so a quota is on packages: those that the grants of a team let it make.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Final, Protocol

from sealcar.errors import ConfigurationError
from sealcar_server import sizes
from sealcar_server.access import rule_tables

_MOST: Final = 10**18 - 1  # what a generation's number can be


@dataclass(frozen=True)
class Pin:
    """The least generation of versions that is opened.

    Attributes:
        package, version: patterns.
        least: the number.
    """

    package: str
    version: str
    least: int

    def is_about(self, package: str, version: str = "") -> bool:
        """Tell whether it is about a version; an empty one: about any of the package."""
        return fnmatch.fnmatchcase(package, self.package) and (
            not version or fnmatch.fnmatchcase(version, self.version)
        )


@dataclass(frozen=True)
class Quota:
    """What packages may take of the store, all together.

    Attributes:
        packages: patterns.
        size: in bytes.
    """

    packages: tuple[str, ...]
    size: int

    def is_about(self, package: str) -> bool:
        """Tell whether a package counts."""
        return any(fnmatch.fnmatchcase(package, pattern) for pattern in self.packages)


class Bounds(Protocol):
    """What holds for packages now; another policy may say something else."""

    def least(self, package: str, version: str) -> int:
        """Return the least generation that is opened; 0 if no pin says."""

    def quotas(self, package: str) -> tuple[Quota, ...]:
        """Return every quota that a package counts for."""


def pin(rule: object, place: str) -> Pin:
    """Read a [[pin]]; `place` is for messages.

    Raises:
        ConfigurationError: it is none.
    """
    found = rule_tables.table(rule, place, {"package", "version", "min_generation"})
    package = rule_tables.pattern(found.get("package"), f"{place}: package")
    version = rule_tables.pattern(found.get("version", "*"), f"{place}: version")
    least = found.get("min_generation")
    if not isinstance(least, int) or isinstance(least, bool) or not 1 <= least <= _MOST:
        raise ConfigurationError(f"{place}: min_generation must be a number from 1")
    return Pin(package, version, least)


def quota(rule: object, place: str) -> Quota:
    """Read a [[quota]]; raises as `pin`."""
    found = rule_tables.table(rule, place, {"packages", "bytes"})
    packages = rule_tables.patterns(found.get("packages"), f"{place}: packages")
    size = found.get("bytes")
    written = str(size) if isinstance(size, int) and not isinstance(size, bool) else size
    total = sizes.read(written) if isinstance(written, str) else None
    if total is None:
        raise ConfigurationError(f'{place}: bytes must be a number, or text such as "50GiB"')
    return Quota(packages, total)
