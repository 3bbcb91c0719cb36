"""`sealcar init`: everything that a first daemon needs, in one directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from sealcar.cli import report
from sealcar.errors import AlreadyExistsError, StorageError
from sealcar_server.cli.first_bucket import FirstBucket
from sealcar_server.cli.first_key import FILE, FirstKey
from sealcar_server.cli.places import CONFIG, home
from sealcar_server.endpoints.listening import ADMIN, DATA, socket_path
from sealcar_server.endpoints.relay import NAME_BYTES
from sealcar_server.keys.ring import KeyRing
from sealcar_server.service.store_key import create_store

_POLICY: Final = "policy.toml"
_FOLDERS: Final = ("state", "run", "run/default", "run/admin")
_SETTINGS: Final = """\
# Settings of the sealcar daemon. Relative paths are of this file's directory.
# Every setting is also SEALCARD_SECTION_KEY in the environment and --set section.key=value.

[daemon]
# What keeps clients apart from the daemon. "none": they may run as the daemon's own user, and can
# then do what it can. Production: run the daemon as a user of its own and write "uid".
isolation = "none"
state_dir = "state"

[listen.default]
dir = "run/default"
mode = "0600"

[admin]
dir = "run/admin"

[metrics]
# for example "127.0.0.1:9464"
address = "off"

[store]
path = "store"
{bucket}
[keys.{alias}]
{key}
[policy]
file = "policy.toml"
"""
_GRANTS: Final = """\
# Who may do what. What no grant allows is refused.
# rights: list, read, write, import, verify, export, manage. "read" implies "list".
# Not given here: export-plain takes packages out unsealed; reseal vouches for edited manifests.

[[grant]]
uid = {uid}
packages = ["*"]
rights = ["list", "read", "write", "import", "verify", "export", "manage"]
"""
_SAID: Final = """\
Made {folder}:
  sealcar.toml   settings
  policy.toml    who may do what: you ({uid}) may do everything but export-plain and reseal
  {key}
  {store}
  state/, run/   the daemon's memory; its sockets

isolation = "none": the daemon will run as you, so your other programs aren't kept out of it. That
is fine for a first try. For production run it as a user of its own and set isolation = "uid".

Next:
  sealcar serve --config {config}
  export SEALCAR_SOCKET={socket}"""


@click.command(
    short_help="Make what a first daemon needs.",
    epilog=report.examples(
        "sealcar init try && sealcar serve --config try/sealcar.toml",
        "sealcar init --key-uri vault:https://vault:8200/transit/sealcar --key-secret file:token",
        "sealcar init node --bucket s3://models/sealcar --bucket-region eu-central-1",
    ),
)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option(
    "--key-uri",
    metavar="URI",
    help="The key-encryption key, at a key service or in a file that there is; else one is made.",
)
@click.option(
    "--key-secret",
    metavar="file:PATH",
    help="File with what opens the key: a passphrase (for a new one too), a PIN, a token.",
)
@click.option(
    "--bucket",
    metavar="s3://BUCKET/PREFIX",
    help="Where the store is, instead of a directory. One that is there is joined: name its key.",
)
@click.option("--bucket-endpoint", metavar="URL", help="Of the service, if it isn't AWS's own.")
@click.option("--bucket-region", metavar="NAME", help="Of the bucket; else us-east-1.")
@click.option(
    "--bucket-credentials",
    metavar="file:PATH",
    help="File of keys as AWS has it; else the environment, or the machine's identity.",
)
@click.option(
    "--bucket-ca",
    metavar="PATH",
    help="Certificates, PEM, of who vouches for the endpoint besides the system.",
)
@click.option("--bucket-http", is_flag=True, help="The endpoint may be one without TLS.")
def init(
    directory: Path | None,
    key_uri: str | None,
    key_secret: str | None,
    **options: str | bool | None,
) -> None:
    """Make a first daemon's settings, key, policy, store and sockets' directories in DIRECTORY.

    Without DIRECTORY: $XDG_DATA_HOME/sealcar, or ~/.local/share/sealcar. There `sealcar serve`
    finds it without being told. Nothing that exists is ever overwritten.

    The settings say isolation = "none", because you and the daemon are one user here: good for a
    first try on one machine, not for production.
    """
    folder = (directory or home()).absolute()
    key = FirstKey.asked(key_uri, key_secret)
    bucket = FirstBucket.asked(options)
    create(folder, key, bucket)
    config, socket = folder / CONFIG, folder / "run" / "default"
    click.echo(
        _SAID.format(
            folder=folder,
            uid=os.getuid(),
            key=key.said(),
            store=bucket.said() if bucket else "store/         sealed packages",
            config=config,
            socket=socket,
        )
    )


def create(folder: Path, key: FirstKey, bucket: FirstBucket | None = None) -> None:
    """Make everything, the settings last: where they are, the rest is.

    Raises:
        AlreadyExistsError: some of it is there already.
        ConfigurationError: the path is too long for sockets.
        StorageError: it can't be written.
        KeyRefusedError, KeyUnavailableError: the key can't be used.
        RuntimeSupportError: what the key needs isn't installed.
    """
    for inner, name in (("run/default", DATA), ("run/admin", ADMIN), ("state/inner", "")):
        socket_path(folder / inner, name or "x" * NAME_BYTES)
    for name in (CONFIG, _POLICY, FILE, "store", *_FOLDERS):
        if os.path.lexists(folder / name):
            raise AlreadyExistsError(f"{folder / name} exists; nothing was changed")
    if bucket is not None and key.uri is None:
        bucket.refuse_new_key()
    key.check()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in _FOLDERS:
            (folder / name).mkdir(mode=0o700)
        _write(folder / _POLICY, _GRANTS.format(uid=os.getuid()))
        _found_store(folder, key, bucket)
        there = (bucket.settings(), bucket.alias) if bucket else ("", "default")
        settings = _SETTINGS.format(bucket=there[0], alias=there[1], key=key.settings())
        _write(folder / CONFIG, settings)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}") from error


def _found_store(folder: Path, key: FirstKey, bucket: FirstBucket | None) -> None:
    alias = bucket.alias if bucket else "default"
    ring = KeyRing({alias: key.provider(folder)}, lifetime=0)
    try:
        if bucket is None:
            create_store(folder / "store", ring, alias).close()
        else:
            bucket.found(ring)
            (folder / "store").mkdir(mode=0o700)
    finally:
        ring.close()


def _write(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123  (a descriptor)
        file.write(text)
