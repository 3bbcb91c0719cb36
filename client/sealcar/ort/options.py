"""Options are code: which session and provider options may go together with sealed payloads.

Options of ONNX Runtime and of execution providers can write a model's weights into files, load
libraries and name paths. `option_tables/` says for each provider, and for ONNX Runtime itself, what
every option does, read from the binary that each table names. Two questions are answered here, both
before anything is decrypted:

- May the caller have set this (`check_caller`)? Not what a table refuses, nor what no table knows.
- What may a package set (`of_package`)? Only what a table calls harmless. The rest is dropped, and
  named, and can't be allowed by anyone.

An entry is a configuration entry of `SessionOptions`, where ONNX Runtime keeps options of plugin
providers as `ep.<name in lower case>.<option>`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import PlaintextRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FOLDER: Final = Path(__file__).parent / "option_tables"
_SESSION: Final = "session"
_UNKNOWN: Final = "unknown"
# ONNX Runtime's own namespaces: an entry elsewhere belongs to somebody's custom operators
_OWN: Final = ("ep.", "memory.", "mlas.", "moe.", "optimization.", "session.")
# characters of an option's name in a message
_SHOWN: Final = 200


@dataclass(frozen=True)
class Refused:
    """One row: an option that doesn't go together with sealed payloads.

    Attributes:
        option: its name.
        does: "writes files", "reads a file", "loads a library", "names a path", "borrows memory".
        what: the same in particular, for a person.
        off: values with which it does nothing.
    """

    option: str
    does: str
    what: str
    off: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Table:
    """All options of one execution provider, or of ONNX Runtime itself.

    Attributes:
        ep: the provider, as ONNX Runtime names it; empty for ONNX Runtime's own options.
        names: what it is called in configuration entries.
        read_from: package and version whose binary the rows were read from.
        harmless: touch nothing outside memory; a package may set them.
        caller: harmless too, if whoever runs the process sets them.
        caller_prefixes: the same for every option that begins so.
        refused: by option.
    """

    ep: str
    names: tuple[str, ...]
    read_from: str
    harmless: frozenset[str]
    caller: frozenset[str] = frozenset()
    caller_prefixes: tuple[str, ...] = ()
    refused: Mapping[str, Refused] = field(default_factory=dict)

    def knows(self, option: str) -> bool:
        """Return whether the table says anything about an option."""
        return option in self.harmless or option in self.caller or option in self.refused

    def objection(self, option: str, value: str) -> str:
        """Return why the caller may not set this option; empty if he may."""
        row = self.refused.get(option)
        if row:
            return "" if value in row.off else f"it {row.does}: it {row.what}"
        if self.knows(option) or option.startswith(self.caller_prefixes):
            return ""
        return f"what it does isn't known (the table was read from {self.read_from})"


@dataclass(frozen=True)
class Finding:
    """One option that isn't applied, and why."""

    option: str
    reason: str

    def __str__(self) -> str:
        """Render for a message; the value may be a path, so it isn't shown."""
        return f"{ascii(self.option)[1:-1][:_SHOWN]}: {self.reason}"


@dataclass(frozen=True)
class PackageOptions:
    """What of a package's options is applied: configuration entries, and what was dropped."""

    entries: Mapping[str, str]
    dropped: tuple[Finding, ...]


def check_caller(
    entries: Mapping[str, str],
    providers: Iterable[tuple[str, Mapping[str, str]]] = (),
    *,
    allow_plaintext_files: bool,
) -> None:
    """Check what the caller set, before anything is decrypted for him.

    Args:
        entries: configuration entries of his session options.
        providers: names and options of providers that have no configuration entries.
        allow_plaintext_files: he says that plaintext may get into files.

    Raises:
        PlaintextRefusedError: with every option that doesn't go together with sealed payloads.
    """
    found = [] if allow_plaintext_files else findings(entries, providers)
    if found:
        raise PlaintextRefusedError(
            "with sealed payloads these options are refused, since plaintext could get into files "
            f"or foreign code could see it: {'; '.join(map(str, found))}. Leave them out, or pass "
            "allow_plaintext_files=True"
        )


def findings(
    entries: Mapping[str, str], providers: Iterable[tuple[str, Mapping[str, str]]] = ()
) -> list[Finding]:
    """Return every option that `check_caller` refuses."""
    asked = [(key, *_owner(key), value) for key, value in entries.items()]
    for ep, options in providers:
        asked += [(f"{ep} {key}", table(ep), key, str(value)) for key, value in options.items()]
    judged = [(key, owner.objection(option, value)) for key, owner, option, value in asked if owner]
    return [Finding(key, reason) for key, reason in judged if reason]


def of_package(
    ep: str, session_options: Mapping[str, str], provider_options: Mapping[str, str]
) -> PackageOptions:
    """Return what may be applied of the options that a package brings for a variant.

    Args:
        ep: the variant's execution provider; empty: any, so none that options could be for.
        session_options: configuration entries, from `executor_info["ort"]` of the variant.
        provider_options: options of that provider, from the same place.
    """
    entries: dict[str, str] = {}
    dropped: list[Finding] = []
    asked = [(name, name, value, _table(_SESSION)) for name, value in session_options.items()]
    prefix = f"ep.{ep.lower()}."
    asked += [(prefix + name, name, value, table(ep)) for name, value in provider_options.items()]
    for key, name, value, owner in asked:
        if name not in owner.harmless:
            why = owner.objection(name, value) or "only the caller may set it"
            dropped.append(Finding(name, why))
        elif owner.ep or not key.startswith("ep.."):
            entries[key] = value
        else:
            dropped.append(Finding(name, "the variant names no execution provider"))
    return PackageOptions(entries, tuple(dropped))


def table(ep: str) -> Table:
    """Return a provider's table; for an unknown provider one that only has an allow-list."""
    name = ep.lower()
    # every load asks, and parsing all of them takes longer than connecting: only what has the name
    # in it is parsed, in which it is written in such quotes
    mentioned = (_table(file) for file, text in _texts().items() if f'"{name}"' in text)
    return next((each for each in mentioned if name in each.names), None) or _table(_UNKNOWN)


def tables() -> Mapping[str, Table]:
    """Return every table, by its file's name."""
    return {file: _table(file) for file in _texts()}


def keys_of(names: Sequence[str] = ()) -> list[str]:
    """Return every configuration key that any table knows, for readers that can't list entries.

    Args:
        names: providers, as configuration entries name them; all known ones if empty.
    """
    session = _table(_SESSION)
    keys = [*session.harmless, *session.caller, *session.refused]
    for each in tables().values():
        options = [*each.harmless, *each.caller, *each.refused]
        keys += [f"ep.{n}.{o}" for n in each.names if not names or n in names for o in options]
    return keys


def _owner(key: str) -> tuple[Table | None, str]:
    """Return the table that a configuration entry falls under, and the option's name there."""
    session = _table(_SESSION)
    if session.knows(key) or key.startswith(session.caller_prefixes):
        return session, key
    if key.startswith("ep.") and key.count(".") > 1:
        _, name, option = key.split(".", 2)
        return table(name), option
    return (session, key) if key.startswith(_OWN) else (None, key)


@cache
def _texts() -> Mapping[str, str]:
    return {file.stem: file.read_text() for file in sorted(_FOLDER.glob("*.toml"))}


@cache
def _table(file: str) -> Table:
    return _parse(tomllib.loads(_texts()[file]))


def _parse(data: Mapping[str, Any]) -> Table:
    rows = [
        Refused(row["option"], row["does"], row["what"], frozenset(row.get("off", ())))
        for row in data.get("refused", ())
    ]
    return Table(
        ep=data["ep"],
        names=tuple(data["names"]),
        read_from=data["read_from"],
        harmless=frozenset(data["harmless"]),
        caller=frozenset(data.get("caller", ())),
        caller_prefixes=tuple(data.get("caller_prefixes", ())),
        refused={row.option: row for row in rows},
    )
