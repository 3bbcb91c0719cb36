"""The command that checks every byte of a package."""

from __future__ import annotations

import shlex
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving
from sealcar.errors import KeyUnavailableError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.catalogue import Progress
    from sealcar.cli.listener import Reached


@click.command(
    short_help="Check every byte of a package.",
    epilog=report.examples("sealcar verify ocr", "sealcar verify ocr@1.2 && deploy"),
)
@click.argument("address")
@click.option(
    "--resume",
    metavar="TOKEN",
    default="",
    help="Go on with a check that was interrupted: that one printed the token.",
)
@click.option("--generation", type=click.IntRange(min=0), default=0, help="0: the newest.")
@prints_json
@asks_the_daemon
def verify(client: Reached, address: str, *, resume: str, generation: int, as_json: bool) -> None:
    """Read every byte of the package ADDRESS and check it against the seal record.

    If the daemon is restarted meanwhile, the check goes on where it was. One that is interrupted
    prints the command that goes on.

    Exit code 6 if anything isn't what the holder of the key wrote; the message names the first
    such payload.
    """
    wanted = Address.whole(address)
    begun = time.monotonic()
    again = f"sealcar verify {wanted}" + (f" --generation {generation}" if generation else "")
    with bytes_moving(f"verifying {wanted}", quiet=as_json) as show, resumable(again) as keep:

        def progress(step: Progress) -> None:
            keep(step.resume_token)
            show(step)

        found = client.catalogue.verify(
            wanted.name, wanted.version, generation, resume=resume, progress=progress
        )
    seconds = time.monotonic() - begun
    if as_json:
        report.emit({"package": str(wanted), "seconds": round(seconds, 3), **asdict(found)})
        return
    click.echo(
        f"{wanted}, generation {found.generation}: {report.many(found.payloads, 'payload')},"
        f" {report.size(found.size)}, all authentic, in {seconds:.1f} s"
    )


@contextmanager
def resumable(command: str) -> Iterator[Callable[[str], None]]:
    """Say how to go on, if the check is cut; yields what takes the last token."""
    last = deque([""], maxlen=1)
    try:
        yield last.append
    except (KeyboardInterrupt, ResourceError, KeyUnavailableError):
        if last[0]:
            # pasted into a shell: a token that a daemon chose must do nothing else there
            token = shlex.quote(report.plain(last[0]))
            click.echo(f"to go on: {command} --resume {token}", err=True)
        raise
