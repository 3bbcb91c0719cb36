"""Checks of single values: each returns what it was given, or names the rule and the place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.modelpackage.errors import SchemaError
from sealcar.modelpackage.values import SchemaVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.modelpackage.json_text import Json

_VERSION: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?", re.ASCII)
_PLAIN: Final = re.compile(r"[\w-]{1,80}", re.ASCII)
_LARGEST: Final = (1 << 63) - 1
_WRAP: Final = 1 << 64


def member(where: str, key: str) -> str:
    """Return the JSON path of a member; a hostile key can't break the line it is shown in."""
    shown = ascii(key)[:80]
    if _PLAIN.fullmatch(key):
        return f"{where}.{key}" if where else key
    return f"{where}[{shown}]"


def an_object(value: Json, where: str) -> dict[str, Json]:
    """Check for an object."""
    if not isinstance(value, dict):
        raise SchemaError("must be an object", where=where)
    return value


def required(body: Mapping[str, Json], key: str, where: str) -> dict[str, Json]:
    """Check for a member that must be there and an object."""
    if key not in body:
        raise SchemaError("is missing", where=member(where, key))
    return an_object(body[key], member(where, key))


def text(body: Mapping[str, Json], key: str, where: str) -> str | None:
    """Check for a member that is text, if it is there."""
    if key not in body:
        return None
    value = body[key]
    if not isinstance(value, str):
        raise SchemaError("must be text", where=member(where, key))
    return value


def known_fields(body: Mapping[str, Json], known: frozenset[str], where: str) -> None:
    """Check that an object has no other members."""
    for key in body:
        if key not in known:
            raise SchemaError("unknown field", where=member(where, key))


def schema_version(manifest: Mapping[str, Json], where: str) -> SchemaVersion:
    """Return the version of the format that a manifest states, supported or not.

    Raises:
        SchemaError: missing or malformed.
    """
    written = manifest.get("schema_version")
    # JSON's true is an int to Python
    if isinstance(written, int) and not isinstance(written, bool):
        return SchemaVersion(written - _WRAP if written > _LARGEST else written, 0, written)
    if isinstance(written, str) and (match := _VERSION.fullmatch(written)):
        return SchemaVersion(_number(match[1], where), _number(match[2] or "0", where), written)
    raise SchemaError('must be "<major>.<minor>"', where=where)


def _number(digits: str, where: str) -> int:
    # far longer numbers than any that is allowed are refused by Python itself
    if len(digits.lstrip("0")) > len(str(_LARGEST)) or int(digits) > _LARGEST:
        raise SchemaError("the version is out of range", where=where)
    return int(digits)
