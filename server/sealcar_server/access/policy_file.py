"""The policy's file: TOML, lists of rules, written by nobody but the daemon's user and root.

    [[grant]]
    uid = 1000                      # and, or instead: gid = 1000
    listener = "tenant-a"           # optional; any listener if left out
    packages = ["ocr", "det-*"]     # * and ? match as in a shell
    components = ["det"]            # optional; all if left out
    rights = ["read"]               # list, read, write, import, verify, export, export-plain,
                                    # manage, reseal

A grant for callers over TLS has, instead of uid, gid and listener,

    spiffe = "spiffe://example.org/ns/prod/sa/ocr"   # or "spiffe://example.org/ns/prod/*"

"read" implies "list". Rights are named one by one: no pattern gives several. For [[pin]] and
[[quota]] see `bounds`.
"""

from __future__ import annotations

import os
import stat
import tomllib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from sealcar.errors import ConfigurationError
from sealcar.names import shown
from sealcar_server.access import bounds, rule_tables, spiffe
from sealcar_server.access.grants import Grant, Right, overflow_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sealcar_server.access.bounds import Pin, Quota

_MAX_ID: Final = 2**32 - 2  # the last value means "unchanged" to the kernel, and is no user's
_MAX_FILE: Final = 1 << 20
_KEYS: Final = frozenset({"uid", "gid", "listener", "spiffe", "packages", "components", "rights"})
_LISTS: Final = frozenset({"grant", "pin", "quota"})
_Rule = TypeVar("_Rule")


class Rules(NamedTuple):
    """All that a policy file says, in its order."""

    grants: tuple[Grant, ...]
    pins: tuple[Pin, ...]
    quotas: tuple[Quota, ...]


def read(path: Path) -> Rules:
    """Return what a policy file says that only the daemon's user and root can write.

    Raises:
        ConfigurationError: it can't be read, others can write it, or a rule is wrong.
    """
    try:
        document = tomllib.loads(_read_protected(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not a TOML file: {error}") from error
    unknown = set(document) - _LISTS
    if unknown:
        raise ConfigurationError(
            f"{path}: unknown key {shown(min(unknown))}; a policy is a list of [[grant]], and "
            "perhaps of [[pin]] and [[quota]]"
        )
    return Rules(
        _rules(document, "grant", path, _grant),
        _rules(document, "pin", path, bounds.pin),
        _rules(document, "quota", path, bounds.quota),
    )


def _rules(
    document: Mapping[str, object], kind: str, path: Path, read_one: Callable[[object, str], _Rule]
) -> tuple[_Rule, ...]:
    listed = document.get(kind, [])
    if not isinstance(listed, list):
        raise ConfigurationError(f"{path}: write [[{kind}]], with two brackets")
    return tuple(read_one(rule, f"{path}: {kind} {at}") for at, rule in enumerate(listed, 1))


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
    found = rule_tables.table(rule, place, _KEYS)
    uid, gid = (_id(found.get(key), key, place) for key in ("uid", "gid"))
    workload = _spiffe(found, place)
    if uid is None and gid is None and workload is None:
        raise ConfigurationError(f"{place}: names nobody; give uid, gid or both, or spiffe")
    listener = found.get("listener")
    if listener is not None and not isinstance(listener, str):
        raise ConfigurationError(f"{place}: listener must be the name of a listener")
    packages = rule_tables.patterns(found.get("packages"), f"{place}: packages")
    components = None
    if found.get("components") is not None:
        components = rule_tables.patterns(found["components"], f"{place}: components")
    rights = _rights(found.get("rights"), f"{place}: rights")
    return Grant(uid, gid, listener, packages, components, rights, workload)


def _spiffe(rule: dict[str, object], place: str) -> str | None:
    value = rule.get("spiffe")
    if value is None:
        return None
    if not isinstance(value, str) or not spiffe.is_pattern(value):
        raise ConfigurationError(
            f"{place}: {shown(value)} is no SPIFFE ID, such as "
            '"spiffe://example.org/ns/prod/sa/ocr" or "spiffe://example.org/ns/prod/*"'
        )
    others = sorted({"uid", "gid", "listener"}.intersection(rule))
    if others:
        raise ConfigurationError(
            f"{place}: spiffe is for callers over TLS, who have no {others[0]}; "
            "write two grants if both are meant"
        )
    return value


def _id(value: object, key: str, place: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_ID:
        raise ConfigurationError(f"{place}: {key} must be a number from 0 to {_MAX_ID}")
    if value == overflow_id(key):
        raise ConfigurationError(
            f"{place}: {key} {value} stands for everyone whom the kernel can't name here, so it "
            "never matches; give the program an id of its own"
        )
    return value


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
