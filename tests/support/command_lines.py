"""Command lines as texts show them, read as the program reads them; nothing is called."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

from sealcar.cli.commands import sealcar

if TYPE_CHECKING:
    from collections.abc import Iterator


def calls(line: str) -> Iterator[list[str]]:
    """Yield the words of each call of `sealcar` in a line of a shell, without the program's."""
    for found in re.finditer(r"(?:^|(?<=[\s(]))sealcar (?=\S)([^&|;>)]*)", line.partition(" #")[0]):
        try:
            yield shlex.split(found[1])
        except ValueError:  # the end of a quotation is beyond this call
            yield found[1].split()


def wrong(words: list[str], *, whole: bool = True) -> str:
    """Say what is wrong with a command line, or nothing.

    Args:
        words: after `sealcar`.
        whole: what must be given has to be; False for a mention in a sentence.
    """
    command: click.Command = sealcar
    context = click.Context(sealcar)
    words = [word for word in words if word != "--help"]
    while isinstance(command, click.Group):
        if not words or words in (["COMMAND"], ["--version"]):
            return ""
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            return f"no command {name}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    try:
        command.make_context(command.name, list(words), context.parent)
    except (click.MissingParameter, click.BadOptionUsage) as error:
        return error.format_message() if whole else ""
    except click.BadParameter:  # a file that isn't here, a placeholder
        return ""
    except click.UsageError as error:
        return error.format_message()
    return ""
