"""`sealcar audit`: whether the audit log is what the daemon wrote."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sealcar.cli import report
from sealcar.errors import InvalidRequestError, StorageError
from sealcar_server import auditing, settings_reading, trust
from sealcar_server.access.audit.chain import Position
from sealcar_server.access.audit.verifying import Found, Verifier
from sealcar_server.cli.places import config as default_config
from sealcar_server.hardening import process


@click.group(
    short_help="Check the audit log.",
    epilog=report.examples("sealcar audit verify /var/lib/sealcar/audit/*.jsonl"),
)
def audit() -> None:
    """Check the audit log. No daemon is asked; the key-encryption key is needed."""


@audit.command(
    short_help="Check that the log is as it was written.",
    epilog=report.examples(
        "sealcar audit verify /var/lib/sealcar/audit/*.jsonl",
        "sealcar audit verify --sequence 4711 --mac 4be1… /backup/audit-*.jsonl",
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--sequence", type=click.IntRange(1), help="Of a line that is known.")
@click.option("--mac", help="Of the line that is known.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="SEALCARD_CONFIG",
    show_envvar=True,
    help="Settings that name the key-encryption keys. Default: as for `sealcar serve`.",
)
def verify(
    files: tuple[Path, ...], sequence: int | None, mac: str | None, config: Path | None
) -> None:
    """Check that no line of FILES was changed, added, moved or taken out.

    FILES are all or the newest files of one daemon's log, in any order. What was cut off at the end
    can't be seen in the files alone: give --sequence and --mac of a line that is known, from
    `sealcar status --admin` or the metric sealcar_audit_info.

    Exit code 0: all is as it was written; 6: something isn't; 1: there is nothing to check.
    """
    if (sequence is None) != (mac is None):
        raise InvalidRequestError("--sequence and --mac belong together")
    known = None if sequence is None or mac is None else Position(sequence, mac)
    process.harden()
    settings = settings_reading.read(config or default_config(), os.environ, ())
    with trust.keyring_of(settings) as keyring:
        try:
            found = Verifier(auditing.unsealing(keyring)).verify(files, known)
        except OSError as error:
            raise StorageError(f"{error.filename}: {error.strerror}") from error
    _show(found, len(files), known)


def _show(found: Found, files: int, known: Position | None) -> None:
    click.echo(
        f"lines {found.first} to {found.last.sequence} in {files}"
        f" {'file' if files == 1 else 'files'}: all as they were written"
    )
    click.echo(f"last: --sequence {found.last.sequence} --mac {found.last.mac}")
    for cut in found.cut:
        click.echo(f"cut by a crash, kept and accounted for: {cut}")
    if found.open_end:
        click.echo(f"the end is a cut line of {found.open_end} bytes: a crash, or no line at all")
    if found.first > 1:
        click.echo(f"what came before line {found.first} isn't in these files")
    if known is None:
        click.echo(
            "lines that were cut off at the end can't be seen this way: give --sequence and --mac "
            "of the last line that is known (`sealcar status --admin`, metric sealcar_audit_info)"
        )
    elif known.sequence < found.last.sequence:
        click.echo(f"of lines after {known.sequence}, the last ones could have been cut off unseen")
