"""What people and scripts see: an error as one line or one JSON object, sizes in words."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from sealcar import names
from sealcar.cli.main import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar.errors import SealcarError

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_STEP: Final = 1000
CODES: Final = "Exit codes are those that `sealcar --help` lists."


def emit(value: Mapping[str, Any]) -> None:
    """Print one JSON object: all that `--json` puts on standard output."""
    # escaped to ASCII: a description or name from elsewhere must not steer a terminal
    click.echo(json.dumps(value, indent=2))


def failure(error: SealcarError, *, as_json: bool) -> None:
    """Print an error of sealcar: its place, what is wrong and what to do."""
    if not as_json:
        click.echo(f"sealcar: {plain(str(error))}", err=True)
        return
    emit({"error": described(error)})


def described(error: SealcarError) -> dict[str, Any]:
    """Return an error as one JSON object."""
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "exit_code": error.exit_code,
        "place": {name: value for name, value in asdict(error.place).items() if value},
        "retry_after": error.retry_after,
        "request_id": error.request_id or None,
    }


def usage(error: click.ClickException | click.Abort, *, as_json: bool) -> int:
    """Print what is wrong with the command line, or the interruption; return the exit code."""
    if isinstance(error, click.Abort):
        click.echo("sealcar: interrupted", err=True)
        return INTERRUPTED
    if as_json:
        kind, text = type(error).__name__, error.format_message()
        emit({"error": {"kind": kind, "message": text, "exit_code": error.exit_code}})
    else:
        error.show()
    return error.exit_code


@contextmanager
def pipe_closed_quietly() -> Iterator[None]:
    """Let `sealcar ls | head -1` end without a complaint."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere()


def nowhere() -> None:
    """Let what is left of the output go nowhere: Python flushes at exit, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def examples(*lines: str) -> str:
    """Make the end of a command's help."""
    return "\b\nExamples:\n  " + "\n  ".join(lines) + "\n\n" + CODES


def plain(text: str) -> str:
    """Escape what could steer a terminal: names in messages come from elsewhere."""
    return names.harmless(text)


def findings(errors: int, warnings: int) -> str:
    """Say how much is wrong."""
    return f"{many(errors, 'error')}, {many(warnings, 'warning')}"


def many(count: int, what: str) -> str:
    """Write a number of things for a person: `1 error`, `2 errors`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def size(count: float) -> str:
    """Write a number of bytes for a person: `3.2 MB`."""
    for unit in _UNITS:
        if count < _STEP or unit == _UNITS[-1]:
            break
        count /= _STEP
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
