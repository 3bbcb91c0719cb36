"""Manual pages, made from the commands themselves: one for each, as man(7) has them.

`python -m sealcar.cli.manual DIRECTORY` writes them; a release carries them in share/man/man1.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECTION: Final = "1"
# paragraphs that stand alone are sections by their first lines; others stay where they are
_HEADINGS: Final = {
    "Examples:": "EXAMPLES",
    "Exit codes:": "EXIT STATUS",
    "Environment:": "ENVIRONMENT",
    "Settings (* must be given):": "SETTINGS (* must be given)",
}
_KEPT: Final = "\b"  # click's mark of a paragraph whose lines stay as they are


@dataclass(frozen=True)
class Described:
    """One command, as --help and the manual tell of it.

    Attributes:
        words: how it is called: ("sealcar", "keys", "rotate").
        command: what is called.
        context: for click's own texts.
    """

    words: tuple[str, ...]
    command: click.Command
    context: click.Context

    @property
    def title(self) -> str:
        """Name of its page: `sealcar-keys-rotate`."""
        return "-".join(self.words)

    @property
    def usage(self) -> str:
        """What follows the words: options and arguments."""
        return " ".join(self.command.collect_usage_pieces(self.context))

    @property
    def options(self) -> list[tuple[str, str]]:
        """Each option as it is written, and what it does."""
        params = self.command.get_params(self.context)
        records = (each.get_help_record(self.context) for each in params if is_option(each))
        return [each for each in records if each]

    @property
    def paragraphs(self) -> list[str]:
        """What it does, and what follows the options."""
        whole = f"{self.command.help or ''}\n\n{self.command.epilog or ''}"
        return [each for each in re.split(r"\n{2,}", whole) if each.strip()]

    @property
    def parts(self) -> list[Described]:
        """Commands of a group."""
        return [] if not isinstance(self.command, click.Group) else list(_parts(self, self.command))


def is_option(param: click.Parameter) -> bool:
    """Say whether it is no argument, which the usage names."""
    return isinstance(param, click.Option)


def described(root: click.Command, name: str = "sealcar") -> Iterator[Described]:
    """Yield a command and, below it, all others, each before its parts."""
    context = click.Context(root, info_name=name, **root.context_settings)
    yield from _all(Described((name,), root, context))


def _all(one: Described) -> Iterator[Described]:
    yield one
    for part in one.parts:
        yield from _all(part)


def _parts(one: Described, group: click.Group) -> Iterator[Described]:
    for name in group.list_commands(one.context):
        command = group.get_command(one.context, name)
        if command is not None and not command.hidden:
            context = click.Context(
                command, parent=one.context, info_name=name, **command.context_settings
            )
            yield Described((*one.words, name), command, context)


def page(one: Described, release: str) -> str:
    """Return a command's page."""
    title = one.title.upper().replace("-", "\\-")
    lines = [f'.TH "{title}" "{SECTION}" "" "sealcar {_plain(release)}" "sealcar"']
    short = one.command.get_short_help_str(200).rstrip(".")
    lines += [".SH NAME", f"{_plain(one.title)} \\- {_plain(short)}", ".SH SYNOPSIS"]
    lines += [f"\\fB{_plain(' '.join(one.words))}\\fR {_plain(one.usage)}"]
    text, sections = _sorted(one.paragraphs)
    lines += [".SH DESCRIPTION", *text]
    if one.parts:
        lines += [".SH COMMANDS"]
        for part in one.parts:
            lines += [".TP", f"\\fB{_plain(part.title)}\\fR({SECTION})"]
            lines += [_line(part.command.get_short_help_str(200))]
    lines += [".SH OPTIONS"]
    for written, what in one.options:
        lines += [".TP", f"\\fB{_plain(written)}\\fR", _line(" ".join(what.split()))]
    for heading, body in sections:
        lines += [f".SH {_plain(heading)}", *_verbatim(body)]
    above = one.words[:-1]
    if above:
        lines += [".SH SEE ALSO", f"\\fB{_plain('-'.join(above))}\\fR({SECTION})"]
    return "\n".join(lines) + "\n"


def _sorted(paragraphs: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the description's lines, and the sections that have a heading of their own."""
    text: list[str] = []
    sections = []
    for paragraph in paragraphs:
        lines = paragraph.strip("\n").split("\n")
        if lines[0].strip() != _KEPT:
            text += [".PP", _line(" ".join(paragraph.split()))]
        elif lines[1].strip() in _HEADINGS:
            sections.append((_HEADINGS[lines[1].strip()], lines[2:]))
        else:
            text += [".PP", *_verbatim(lines[1:])]
    return text[1:] if text[:1] == [".PP"] else text, sections


def _verbatim(lines: Sequence[str]) -> list[str]:
    return [".nf", *(_line(line) for line in lines), ".fi"]


def _line(text: str) -> str:
    """Write a line of text: one that begins with a dot or a quote is no request."""
    shown = _plain(text)
    return f"\\&{shown}" if shown[:1] in {".", "'"} else shown


def _plain(text: str) -> str:
    """Write text as roff has it: hyphens that can be copied, no letter that means something."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in escaped)


def write(root: click.Command, folder: Path) -> list[Path]:
    """Write the pages of a command and of all below it, and say which."""
    folder.mkdir(parents=True, exist_ok=True)
    release = version("sealcar")
    written = []
    for one in described(root):
        path = folder / f"{one.title}.{SECTION}"
        path.write_text(page(one, release))
        written.append(path)
    return written


if __name__ == "__main__":
    from sealcar.cli.commands import sealcar

    write(sealcar, Path(sys.argv[1]))
