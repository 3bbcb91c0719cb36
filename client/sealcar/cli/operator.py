"""How an operator's command finds and asks the daemon's admin socket."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealcar.cli.listener import waits

if TYPE_CHECKING:
    from collections.abc import Callable


def asks_the_admin_socket(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a connection, and the connection as its first argument."""

    @click.option(
        "--admin",
        type=click.Path(path_type=Path),
        envvar="SEALCAR_ADMIN",
        show_envvar=True,
        help="Directory with the daemon's admin socket; by default `admin` beside the directory"
        " with the daemon's other sockets.",
    )
    @wraps(command)
    def connected(admin: Path | None, timeout: float, **options: object) -> None:
        from sealcar.admin import Admin  # noqa: PLC0415  (loads gRPC, which --help needn't)
        from sealcar.transfer.location import Location  # noqa: PLC0415  (the same reason)

        directory = admin or Location.find(None, None).directory.parent / "admin"
        with Admin.at(directory, timeout=timeout) as socket:
            command(socket, **options)

    return waits(connected, 30.0, "each of the daemon's answers")
