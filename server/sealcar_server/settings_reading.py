"""Reads settings: a TOML file, over it the environment, over that the flags.

`SEALCARD_SECTION_KEY` and `--set section.key=value` reach every setting; a named section takes its
name in between: `SEALCARD_LISTEN_DEFAULT_DIR`, `--set listen.default.dir=…`. The first setting
that is wrong is an error that says where it stands, what is allowed and what to do.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError
from sealcar.names import shown
from sealcar_server import settings as table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX: Final = "SEALCARD_"
_NOT_SETTINGS: Final = frozenset({"SEALCARD_CONFIG"})  # names the file itself
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class _Written:
    """A value as somebody wrote it, and where."""

    section: str
    name: str  # of a named section, else empty
    key: str  # empty: the section is there
    value: object
    place: str
    base: Path


def read(file: Path, environment: Mapping[str, str], flags: Iterable[str]) -> table.Settings:
    """Return all settings; a flag wins over the environment, which wins over the file.

    Raises:
        ConfigurationError: one is unknown, missing or wrong.
    """
    written = list(_of_file(file))
    names = {(one.section, one.name) for one in written}
    written += _of_environment(environment, names)
    written += [_of_flag(flag) for flag in flags]
    last = {(one.section, one.name, one.key): one for one in written}
    sections: dict[str, object] = {}
    for section in table.SECTIONS:
        sections[section] = _section(section, "", last, file)
    for section in table.NAMED:
        found = sorted({one.name for one in written if one.section == section})
        if not found:
            raise ConfigurationError(
                f"{file}: no [{section}.NAME]; add one with {_required_keys(section)}"
            )
        sections[section] = {name: _section(section, name, last, file) for name in found}
    return table.Settings(**sections)  # type: ignore[arg-type]  # each was made by its own class


def _section(
    section: str, name: str, last: Mapping[tuple[str, str, str], _Written], file: Path
) -> table.Section:
    values = {}
    for key, info in table.keys_of(section).items():
        one = last.get((section, name, key))
        if one is not None:
            values[key] = _value(one, info)
        elif info.required:
            raise ConfigurationError(
                f"{file}: {_label(section, name)} {key} is missing ({info.purpose}); "
                f"it must be {info.kind.allowed}"
            )
    return {**table.SECTIONS, **table.NAMED}[section](**values)  # type: ignore[arg-type]  # read by kind


def _value(one: _Written, info: table.KeyInfo) -> object:
    try:
        return info.kind.read(one.value, one.base)
    except ValueError as error:
        raise ConfigurationError(f"{one.place} must be {info.kind.allowed}: {error}") from None


def _of_file(file: Path) -> Iterator[_Written]:
    try:
        document = tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise ConfigurationError(
            f"{file}: can't read the settings: {error.strerror}; `sealcar init` writes a first file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: not a TOML file: {error}") from error
    base = file.absolute().parent
    for section, content in document.items():
        known = {**table.SECTIONS, **table.NAMED}
        if section not in known:
            raise _unknown(f"{file}: section", section, known)
        tables = {"": content} if section in table.SECTIONS else content
        for name, keys in _table(tables, f"{file}: [{section}]").items():
            place = f"{file}: {_label(section, name)}"
            _check_name(section, name, place)
            yield _Written(section, name, "", None, place, base)  # even if it says nothing
            for key, value in _table(keys, place).items():
                _check_key(section, key, place)
                yield _Written(section, name, key, value, f"{place} {key}", base)


def _table(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{place} must be a table of keys")
    return value


def _of_environment(
    environment: Mapping[str, str], names: set[tuple[str, str]]
) -> Iterator[_Written]:
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable in _NOT_SETTINGS:
            continue
        section, _, rest = variable.removeprefix(PREFIX).lower().partition("_")
        name, key = "", rest
        if section in table.NAMED:
            key = next((k for k in table.keys_of(section) if rest.endswith(f"_{k}")), "")
            name = _spelled(section, rest.removesuffix(f"_{key}"), names)
        if section not in {**table.SECTIONS, **table.NAMED} or key not in table.keys_of(section):
            raise ConfigurationError(
                f"environment: {variable} is no setting; it must be {PREFIX}SECTION_KEY, or "
                f"{PREFIX}LISTEN_NAME_KEY and {PREFIX}KEYS_ALIAS_KEY"
            )
        _check_name(section, name, f"environment: {variable}")
        yield _Written(section, name, key, value, f"environment: {variable}", Path.cwd())


def _spelled(section: str, name: str, names: set[tuple[str, str]]) -> str:
    """Return a name as the file spells it: a variable has no dash."""
    for known_section, known in names:
        if known_section == section and known.replace("-", "_") == name:
            return known
    return name


def _of_flag(flag: str) -> _Written:
    place = f"--set {flag.partition('=')[0]}"
    path, equals, value = flag.partition("=")
    parts = path.split(".")
    section = parts[0]
    named = section in table.NAMED
    if section not in {**table.SECTIONS, **table.NAMED}:
        raise _unknown(f"{place}: section", section, {**table.SECTIONS, **table.NAMED})
    if not equals or len(parts) != (3 if named else 2):
        form = f"{section}.NAME.KEY=VALUE" if named else f"{section}.KEY=VALUE"
        raise ConfigurationError(f"{place}: write --set {form}")
    name, key = (parts[1] if named else ""), parts[-1]
    _check_name(section, name, place)
    _check_key(section, key, f"{place}:")
    return _Written(section, name, key, value, place, Path.cwd())


def _check_name(section: str, name: str, place: str) -> None:
    if section in table.NAMED and not _NAME.fullmatch(name):
        raise ConfigurationError(f"{place}: the name {shown(name)} must match {_NAME.pattern}")


def _check_key(section: str, key: str, place: str) -> None:
    if key not in table.keys_of(section):
        raise _unknown(f"{place} key", key, table.keys_of(section))


def _unknown(what: str, word: str, known: Mapping[str, object]) -> ConfigurationError:
    close = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ConfigurationError(
        f"{what} {shown(word)} is unknown; {hint}allowed: {', '.join(sorted(known))}"
    )


def _label(section: str, name: str) -> str:
    return f"[{section}.{name}]" if name else f"[{section}]"


def _required_keys(section: str) -> str:
    keys = table.keys_of(section).items()
    return ", ".join(f"{name} = {key.kind.allowed}" for name, key in keys if key.required)
