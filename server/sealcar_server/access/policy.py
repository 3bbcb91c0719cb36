"""The policy: which principal has which rights on which packages.

A policy file is TOML, a list of grants; what no grant allows is refused:

    [[grant]]
    uid = 1000                      # and, or instead: gid = 1000, listener = "default"
    packages = ["ocr", "det-*"]     # * and ? match as in a shell
    components = ["det"]            # optional; all if left out
    rights = ["read"]               # list, read, write, import, verify

"read" implies "list". Whoever may not list a package can't tell a forbidden one from one that
doesn't exist.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import tomllib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from sealcar.errors import ConfigurationError, DeniedError, NotFoundError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.access.principal import Principal

_MAX_ID: Final = 2**32 - 2  # the last value means "unchanged" to the kernel, and is no user's
_MAX_FILE: Final = 1 << 20
_PATTERN: Final = re.compile(r"[^/\x00-\x1f]{1,200}")
_KEYS: Final = frozenset({"uid", "gid", "listener", "packages", "components", "rights"})


class Right(StrEnum):
    """What a grant can allow."""

    LIST = "list"
    READ = "read"
    WRITE = "write"
    IMPORT = "import"
    VERIFY = "verify"


@dataclass(frozen=True)
class Grant:
    """One rule: who may do what on which packages. None means anyone, any listener, all parts."""

    uid: int | None
    gid: int | None
    listener: str | None
    packages: tuple[str, ...]
    components: tuple[str, ...] | None
    rights: frozenset[Right]

    def covers(self, principal: Principal, package: str, component: str, *, listing: bool) -> bool:
        """Tell whether the rule is about this caller and this part of this package.

        An empty component means the whole package, which a rule for some components doesn't
        cover, except for listing: to see a component is to see its package.
        """
        if not self._is_about(principal) or not _matches(self.packages, package):
            return False
        if self.components is None:
            return True
        return _matches(self.components, component) if component else listing

    def _is_about(self, principal: Principal) -> bool:
        return (
            self.uid in (None, principal.uid)
            and self.gid in (None, principal.gid)
            and self.listener in (None, principal.listener)
        )


def _nothing(_kind: str) -> None:
    pass


@dataclass(frozen=True)
class Policy:
    """Every grant of a policy file.

    `on_denied` is told the kind of each refusal: "unknown" or "right".
    """

    grants: tuple[Grant, ...]
    on_denied: Callable[[str], None] = field(default=_nothing, repr=False, compare=False)

    @classmethod
    def load(cls, path: Path, *, on_denied: Callable[[str], None] = _nothing) -> Self:
        """Read a policy file that only the daemon's user and root can write.

        Raises:
            ConfigurationError: it can't be read, others can write it, or a grant is wrong.
        """
        try:
            document = tomllib.loads(_read_protected(path))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: not a TOML file: {error}") from error
        unknown = set(document) - {"grant"}
        if unknown:
            raise ConfigurationError(
                f"{path}: unknown key {shown(min(unknown))}; a policy is a list of [[grant]]"
            )
        rules = document.get("grant", [])
        if not isinstance(rules, list):
            raise ConfigurationError(f"{path}: write [[grant]], with two brackets")
        grants = tuple(_grant(rule, f"{path}: grant {at}") for at, rule in enumerate(rules, 1))
        return cls(grants, on_denied)

    def allows(self, principal: Principal, right: Right, package: str, component: str = "") -> bool:
        """Tell whether a grant allows it. An empty component means the whole package."""
        listing = right is Right.LIST
        wanted = {Right.LIST, Right.READ} if listing else {right}
        return any(
            grant.rights & wanted and grant.covers(principal, package, component, listing=listing)
            for grant in self.grants
        )

    def require(
        self, principal: Principal, right: Right, package: str, component: str = ""
    ) -> None:
        """Return if a grant allows it.

        Raises:
            DeniedError: no grant does, but the caller may list the package.
            NotFoundError: the caller may not even know whether the package exists.
        """
        if self.allows(principal, right, package, component):
            return
        if self.allows(principal, Right.LIST, package, component):
            self.on_denied("right")
            what = f"package {package}" + (f", component {component}" if component else "")
            raise DeniedError(
                f"no grant of the policy gives {principal} the right {right.value!r} on {what}"
            )
        self.on_denied("unknown")
        raise unknown_package(package)

    def names_uid(self, uid: int) -> bool:
        """Tell whether a grant names this uid."""
        return any(grant.uid == uid for grant in self.grants)


def unknown_package(package: str) -> NotFoundError:
    """Return the one error for a package that doesn't exist and for one that is forbidden."""
    return NotFoundError(f"no package {shown(package)}, or none that the caller may know of")


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _read_protected(path: Path) -> str:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            raw = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: can't read the policy: {error.strerror}") from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(
            f"{path}: others than the daemon's user and root can write the policy; "
            "chown it to one of them and chmod go-w"
        )
    if len(raw) > _MAX_FILE:
        raise ConfigurationError(f"{path}: the policy is over {_MAX_FILE} bytes")
    return raw.decode()


def _grant(rule: object, place: str) -> Grant:
    if not isinstance(rule, dict):
        raise ConfigurationError(f"{place}: must be a table")
    unknown = set(rule) - _KEYS
    if unknown:
        raise ConfigurationError(
            f"{place}: unknown key {shown(min(unknown))}; allowed: {', '.join(sorted(_KEYS))}"
        )
    uid, gid = (_id(rule.get(key), f"{place}: {key}") for key in ("uid", "gid"))
    if uid is None and gid is None:
        raise ConfigurationError(f"{place}: names nobody; give uid, gid or both")
    listener = rule.get("listener")
    if listener is not None and not isinstance(listener, str):
        raise ConfigurationError(f"{place}: listener must be the name of a listener")
    packages = _patterns(rule.get("packages"), f"{place}: packages")
    components = rule.get("components")
    if components is not None:
        components = _patterns(components, f"{place}: components")
    rights = _rights(rule.get("rights"), f"{place}: rights")
    return Grant(uid, gid, listener, packages, components, rights)


def _id(value: object, place: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_ID:
        raise ConfigurationError(f"{place} must be a number from 0 to {_MAX_ID}")
    return value


def _patterns(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigurationError(f'{place} must be a list of names, such as ["ocr", "det-*"]')
    for pattern in value:
        if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
            raise ConfigurationError(f"{place}: {shown(pattern)} is no name")
    return tuple(value)


def _rights(value: object, place: str) -> frozenset[Right]:
    allowed = ", ".join(right.value for right in Right)
    if not isinstance(value, list) or not value:
        raise ConfigurationError(f"{place} must be a list of: {allowed}")
    try:
        return frozenset(Right(name) for name in value)
    except ValueError:
        wrong = next(name for name in value if name not in list(Right))
        message = f"{place}: {shown(wrong)} is no right; allowed: {allowed}"
        raise ConfigurationError(message) from None
