"""A Dockerfile as instructions, variables replaced as its reference says."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)(?::\+((?:[^{}]|\{[^}]*\})*))?\})")


class Instruction(NamedTuple):
    """One instruction: its word, and what follows it on one line."""

    word: str
    rest: str

    def flags(self) -> dict[str, str]:
        """Return the options before the arguments, such as {"from": "build"}."""
        return dict(re.findall(r"(?:^|(?<=\s))--(\w+)=(\S+)", self.rest))

    def arguments(self) -> list[str]:
        """Return the arguments after the options, of either form."""
        plain = re.sub(r"^(--\w+=\S+\s+)+", "", self.rest)
        if plain.startswith("["):
            made: list[str] = json.loads(plain)
            return made
        return shlex.split(plain)


class Stage(NamedTuple):
    """What is between one FROM and the next."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]


def read(path: Path) -> tuple[dict[str, str], tuple[Stage, ...]]:
    """Return the defaults of the arguments before the first FROM, and the stages."""
    lines = [line for line in path.read_text().splitlines() if not re.match(r"\s*#", line)]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    instructions = [Instruction(word, rest) for word, rest in found]
    starts = [at for at, each in enumerate(instructions) if each.word == "FROM"]
    defaults = dict(each.rest.split("=", 1) for each in instructions[: starts[0]])
    defaults = {name: "".join(shlex.split(value)) for name, value in defaults.items()}
    stages = []
    for at, end in zip(starts, [*starts[1:], len(instructions)], strict=True):
        base, _, name = instructions[at].rest.partition(" AS ")
        body = tuple(instructions[at + 1 : end])
        stages.append(Stage(name, expand(base, defaults), body))
    return defaults, tuple(stages)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace $NAME, ${NAME} and ${NAME:+word}; what has no value is empty."""

    def value(found: re.Match[str]) -> str:
        plain, braced, word = found.groups()
        if word is not None:
            return expand(word, values) if values.get(braced) else ""
        return values.get(plain or braced, "")

    return _VARIABLE.sub(value, text)


def pairs(text: str) -> dict[str, str]:
    """Return what ENV or LABEL sets."""
    return dict(part.split("=", 1) for part in shlex.split(text))
