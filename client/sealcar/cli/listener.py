"""How a command finds and asks the daemon: the options that all of them share."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def asks_the_daemon(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a connection, and the connection as its first argument."""

    @click.option(
        "--socket",
        type=click.Path(path_type=Path),
        envvar="SEALCAR_SOCKET",
        show_envvar=True,
        help="Directory with the daemon's sockets; by default /run/sealcar/default"
        " or $XDG_RUNTIME_DIR/sealcar/default.",
    )
    @click.option(
        "--timeout",
        type=click.FloatRange(0.1, 3600),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the daemon, and for each of its answers.",
    )
    @wraps(command)
    def connected(socket: Path | None, timeout: float, **options: object) -> None:
        import sealcar  # noqa: PLC0415  (loads the transport, which --help needn't)

        with sealcar.connect(socket, timeout=timeout) as client:
            command(client, **options)

    return connected


def prints_json(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--json`, as the argument `as_json`."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object instead; errors too. For scripts.",
    )(command)
