"""How a command reaches a registry: the options that those which do so share."""

from __future__ import annotations

import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sealcar.errors import InvalidRequestError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 64 << 10
_FILE: Final = click.Path(path_type=Path)
_OPTIONS: Final = (
    click.option(
        "--username",
        default="",
        help="At the registry, with a password; by default what `docker login` left.",
    ),
    click.option("--password-stdin", is_flag=True, help="Its password from standard input."),
    click.option("--password-file", type=_FILE, metavar="FILE", help="Its password from a file."),
    click.option(
        "--registry-config",
        type=_FILE,
        metavar="FILE",
        help="Where credentials are kept; by default $DOCKER_CONFIG or ~/.docker/config.json.",
    ),
    click.option(
        "--registry-ca",
        type=_FILE,
        metavar="FILE",
        help="Who signs the registry's certificate, PEM; by default the usual authorities.",
    ),
    click.option(
        "--plain-http",
        is_flag=True,
        help="The registry has no TLS: all on the way read credentials and ciphertext.",
    ),
)


def reaches_a_registry(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command REFERENCE and the options of a registry, as `place` and `access`."""

    @wraps(command)
    def reaching(reference: str, **options: object) -> None:
        from sealcar import oci  # noqa: PLC0415  (not needed for --help)

        # what is wrong with these is said before anybody is waited for
        oci.check_installed()
        taken = {name: options.pop(name) for name in _NAMES}
        username, stdin = str(taken["username"]), bool(taken["password_stdin"])
        access = oci.Access(
            username=username,
            password=_password(username, taken["password_file"], stdin=stdin),
            config=_path(taken["registry_config"]),
            ca=_path(taken["registry_ca"]),
            plain_http=bool(taken["plain_http"]),
        )
        access.check()
        command(place=oci.Reference.parse(reference), access=access, **options)

    decorated: Callable[..., None] = reaching
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return click.argument("reference")(decorated)


_NAMES: Final = (
    "username",
    "password_stdin",
    "password_file",
    "registry_config",
    "registry_ca",
    "plain_http",
)


def _path(value: object) -> Path | None:
    return value if isinstance(value, Path) else None


def _password(username: str, file: object, *, stdin: bool) -> str:
    """Return the password of a user; empty: nobody is named.

    Raises:
        InvalidRequestError: there is one without the other, or two.
        StorageError: it can't be read.
    """
    if stdin and file is not None:
        raise InvalidRequestError("--password-stdin and --password-file are two: give one of them")
    if bool(username) is not (stdin or file is not None):
        raise InvalidRequestError(
            "--username goes with --password-stdin or --password-file, and they with it"
        )
    if not username:
        return ""
    try:
        if stdin:
            data = sys.stdin.buffer.read(_MOST)
        else:
            with Path(str(file)).open("rb") as opened:
                data = opened.read(_MOST)
    except OSError as error:
        raise StorageError(f"the password can't be read: {error.strerror}") from error
    try:
        password = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InvalidRequestError("the password isn't UTF-8") from None
    if not password or ":" in username:
        raise InvalidRequestError("the password is empty, or the user's name holds a colon")
    return password
