"""One rule of a policy: who may do what on which packages."""

from __future__ import annotations

import fnmatch
import functools
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar_server.access import spiffe

if TYPE_CHECKING:
    from sealcar_server.access.principal import Principal

_OVERFLOW: Final = 65534


class Right(StrEnum):
    """What a grant can allow."""

    LIST = "list"
    READ = "read"
    WRITE = "write"
    IMPORT = "import"
    VERIFY = "verify"
    EXPORT = "export"
    EXPORT_PLAIN = "export-plain"
    MANAGE = "manage"
    RESEAL = "reseal"


@functools.cache
def overflow_id(kind: str) -> int:
    """Return the id that the kernel gives for every "uid" or "gid" that it can't name here.

    Seen from another user namespace many users are this one, so it is nobody in particular.
    """
    try:
        return int(Path(f"/proc/sys/kernel/overflow{kind}").read_bytes())
    except (OSError, ValueError):
        return _OVERFLOW


@dataclass(frozen=True)
class Grant:
    """One rule: who may do what on which packages. None means anyone, any listener, all parts.

    A rule with a SPIFFE ID, or a pattern of some, is about callers over TLS, any other rule about
    callers on a listener. None is about both.
    """

    uid: int | None
    gid: int | None
    listener: str | None
    packages: tuple[str, ...]
    components: tuple[str, ...] | None
    rights: frozenset[Right]
    spiffe: str | None = None

    def gives(self, right: Right) -> bool:
        """Tell whether the rule allows this; reading something is seeing it."""
        return right in self.rights or (right is Right.LIST and Right.READ in self.rights)

    def covers(self, principal: Principal, package: str, component: str, *, listing: bool) -> bool:
        """Tell whether the rule is about this caller and this part of this package.

        An empty component means the whole package, which a rule for some components doesn't
        cover, except for listing: to see a component is to see its package.
        """
        if not self.is_about(principal) or not self.matches_package(package):
            return False
        if self.components is None:
            return True
        return _matches(self.components, component) if component else listing

    def is_about(self, principal: Principal) -> bool:
        """Tell whether the rule is about this caller."""
        if self.spiffe is not None or principal.spiffe:
            return bool(self.spiffe and spiffe.matches(self.spiffe, principal.spiffe))
        unnamed = principal.uid == overflow_id("uid") or (
            self.gid is not None and principal.gid == overflow_id("gid")
        )
        return (
            not unnamed
            and self.uid in (None, principal.uid)
            and self.gid in (None, principal.gid)
            and self.listener in (None, principal.listener)
        )

    def matches_package(self, package: str) -> bool:
        """Tell whether the rule is about this package."""
        return _matches(self.packages, package)


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
