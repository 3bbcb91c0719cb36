"""How a command finds and asks the daemon: the options that all of them share."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.catalogue import Catalogue
    from sealcar.client import Client
    from sealcar.remote import RemoteClient

_FILE: Final = click.Path(path_type=Path)
_OVER_TLS: Final = (
    click.option(
        "--remote",
        metavar="HOST:PORT",
        envvar="SEALCAR_REMOTE",
        show_envvar=True,
        help="A daemon that serves mutual TLS, instead of one on this machine.",
    ),
    click.option(
        "--tls-ca",
        type=_FILE,
        envvar="SEALCAR_TLS_CA",
        show_envvar=True,
        help="With --remote: who signs the daemon's certificate, PEM.",
    ),
    click.option(
        "--tls-cert",
        type=_FILE,
        envvar="SEALCAR_TLS_CERT",
        show_envvar=True,
        help="With --remote: your own certificate, PEM.",
    ),
    click.option(
        "--tls-key",
        type=_FILE,
        envvar="SEALCAR_TLS_KEY",
        show_envvar=True,
        help="With --remote: its private key, PEM.",
    ),
    click.option(
        "--tls-server-name",
        metavar="NAME",
        envvar="SEALCAR_TLS_SERVER_NAME",
        show_envvar=True,
        help="With --remote: that the daemon's certificate is for, if it isn't HOST.",
    ),
)


class Reached(Protocol):
    """A daemon, here or elsewhere."""

    @property
    def catalogue(self) -> Catalogue:
        """What its store holds."""


def asks_the_daemon(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a connection, and the connection as its first argument."""

    @wraps(command)
    def connected(socket: Path | None, timeout: float, **options: object) -> None:
        over_tls = _taken(options)
        with _reached(socket, over_tls, timeout) as client:
            command(client, **options)

    for option in reversed(_OVER_TLS):
        connected = option(connected)
    return of_this_machine(connected)


def of_this_machine(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--socket` and `--timeout`."""
    socket = click.option(
        "--socket",
        type=_FILE,
        envvar="SEALCAR_SOCKET",
        show_envvar=True,
        help="Directory with the daemon's sockets; by default /run/sealcar/default"
        " or $XDG_RUNTIME_DIR/sealcar/default.",
    )
    return socket(waits(command, 10.0, "the daemon, and for each of its answers"))


def waits(command: Callable[..., None], seconds: float, what: str) -> Callable[..., None]:
    """Give a command `--timeout`."""
    return click.option(
        "--timeout",
        type=click.FloatRange(0.1, 3600),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help=f"How long to wait for {what}.",
    )(command)


def _taken(options: dict[str, object]) -> dict[str, object]:
    """Take the options of a connection over TLS out of those of a command; none: not over TLS."""
    names = ("remote", "tls_ca", "tls_cert", "tls_key", "tls_server_name")
    taken = {name: options.pop(name) for name in names}
    written = {name for name in (*names, "socket") if _is_written(name)}
    if "socket" in written and "remote" in written:
        raise click.UsageError("--socket and --remote are two daemons: give one of them")
    if taken["remote"] is None and written - {"socket"}:
        raise click.UsageError("--tls-… options go with --remote")
    # what is written on the command line wins over the environment
    return {} if taken["remote"] is None or "socket" in written else taken


def _is_written(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _reached(
    socket: Path | None, over_tls: dict[str, object], timeout: float
) -> Client | RemoteClient:
    import sealcar  # noqa: PLC0415  (loads the transport, which --help needn't)

    if not over_tls:
        return sealcar.connect(socket, timeout=timeout)
    text = {name: str(value) if value else None for name, value in over_tls.items()}
    return sealcar.connect_remote(
        text["remote"],
        ca=text["tls_ca"],
        certificate=text["tls_cert"],
        key=text["tls_key"],
        server_name=text["tls_server_name"],
        timeout=timeout,
    )


def prints_json(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--json`, as the argument `as_json`."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object instead; errors too. For scripts.",
    )(command)
