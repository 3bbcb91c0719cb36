"""The command that says how the daemon is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealcar.cli import report
from sealcar.cli.listener import asks_the_daemon, prints_json

if TYPE_CHECKING:
    from sealcar.client import Client


@click.command(
    epilog=report.examples("sealcar status", "sealcar status --json --admin /run/sealcar/admin")
)
@click.option(
    "--admin",
    type=click.Path(path_type=Path),
    envvar="SEALCAR_ADMIN",
    show_envvar=True,
    help="Directory with the daemon's admin socket; with it the state of every key is shown.",
)
@prints_json
@asks_the_daemon
def status(client: Client, *, admin: Path | None, as_json: bool) -> None:
    """Say whether the daemon serves, how clients are isolated from it, and how its keys are.

    Exit code 0 while it serves, 4 while it doesn't: fit for a probe. Operators who can open the
    admin socket also see every key-encryption key, asked for its health now.
    """
