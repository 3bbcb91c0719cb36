"""What pages show as code, and how a reader would run it: one shell, one block after the other."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FENCED: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_MARK: Final = "@@ step "


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: what stands after the fence; "" for none.
        text: without the fence, and without the indentation of a list.
    """

    language: str
    text: str


@dataclass(frozen=True)
class Step:
    """One thing that a reader does.

    Attributes:
        command: as a shell takes it.
        shown: lines that the page shows of its output; … stands for any text.
    """

    command: str
    shown: tuple[str, ...] = ()

    def missing(self, output: str) -> list[str]:
        """Return the lines that are shown and don't come, in this order, in the output."""
        lines = iter(output.splitlines())
        patterns = [
            (each, re.compile(".*".join(map(re.escape, each.split("…"))))) for each in self.shown
        ]
        return [each for each, pattern in patterns if not any(map(pattern.fullmatch, lines))]


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    return [Block(found[2], textwrap.dedent(found[3])) for found in _FENCED.finditer(page)]


def steps(page: str, *languages: str) -> Iterator[Step]:
    """Yield what a reader of a page does: its blocks `console` and `python`, or one of them."""
    for block in blocks(page):
        if languages and block.language not in languages:
            continue
        if block.language == "python":
            yield Step(f"python - <<'end of the block'\n{block.text}end of the block")
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                yield Step(command, tuple(line for line in shown if line.strip()))


def script(done: Iterable[Step]) -> str:
    """Return a script for bash that does it all, ends at what fails, and says where it is."""
    lines = ["set -eu", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    for number, step in enumerate(done):
        lines += [f"echo '{_MARK}{number}'", step.command]
    return "\n".join(lines)


def outputs(output: str) -> list[str]:
    """Return what each step of a script wrote."""
    return re.split(rf"^{_MARK}\d+\n", output, flags=re.MULTILINE)[1:]
