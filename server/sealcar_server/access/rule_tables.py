"""What all rules of a policy file have in common: tables with known keys, and names of packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_PATTERN: Final = re.compile(r"[^/\x00-\x1f]{1,200}")


def table(rule: object, place: str, allowed: AbstractSet[str]) -> dict[str, object]:
    """Return a rule that has no other keys than these; `place` is for messages.

    Raises:
        ConfigurationError: it is none, or has.
    """
    if not isinstance(rule, dict):
        raise ConfigurationError(f"{place}: must be a table")
    unknown = set(rule) - allowed
    if unknown:
        raise ConfigurationError(
            f"{place}: unknown key {shown(min(unknown))}; allowed: {', '.join(sorted(allowed))}"
        )
    return rule


def pattern(value: object, place: str) -> str:
    """Return a name, or a pattern of some.

    Raises:
        ConfigurationError: it is neither.
    """
    if not isinstance(value, str) or not _PATTERN.fullmatch(value):
        raise ConfigurationError(f"{place}: {shown(value)} is no name")
    return value


def patterns(value: object, place: str) -> tuple[str, ...]:
    """Return a list of at least one; raises as `pattern`."""
    if not isinstance(value, list) or not value:
        raise ConfigurationError(f'{place} must be a list of names, such as ["ocr", "det-*"]')
    return tuple(pattern(each, place) for each in value)
