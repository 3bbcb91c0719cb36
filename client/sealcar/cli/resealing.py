"""The command that seals a manifest which was edited in the store."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.errors import WrongStateError

if TYPE_CHECKING:
    from sealcar.catalogue import Resealed
    from sealcar.cli.listener import Reached


@click.command(
    short_help="Seal an edited manifest.",
    epilog=report.examples("sealcar reseal ocr", "sealcar reseal ocr@1.2 --yes"),
)
@click.argument("package", metavar="NAME[@VERSION]")
@click.option("--yes", is_flag=True, help="Do it, without asking.")
@click.option("--dry-run", is_flag=True, help="Only show what differs.")
@prints_json
@asks_the_daemon
def reseal(client: Reached, package: str, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Make a new generation of what the manifest in the newest one says by now.

    It was edited in the store, by hand or by ONNX Runtime's package library, and is refused until
    then. Whatever it says is vouched for from now on: so read what differs, which is shown first.
    Payloads stay as they are. The edited generation stays refused.
    """
    wanted = Address.whole(package)
    seen = client.catalogue.reseal(wanted.name, wanted.version)
    if not as_json:
        _show(seen)
    if dry_run or not seen.changed:
        if as_json:
            report.emit(_described(wanted, seen))
        return
    if not yes:
        _ask(wanted, may_ask=not as_json)
    done = client.catalogue.reseal(
        wanted.name, wanted.version, manifest_sha256=seen.manifest_sha256
    )
    if as_json:
        report.emit(_described(wanted, done))
        return
    click.echo(f"sealed {wanted}, generation {done.generation}")


def _ask(wanted: Address, *, may_ask: bool) -> None:
    if not (may_ask and sys.stdin.isatty()):
        raise WrongStateError("nothing was sealed: say --yes")
    if not click.confirm(f"Vouch for all of it, and seal it as a new generation of {wanted}?"):
        raise WrongStateError("nothing was sealed")


def _show(seen: Resealed) -> None:
    if not seen.changed:
        click.echo("what the seal record covers is as it was sealed: there is nothing to do")
    for place in seen.changed:
        click.echo(f"differs: {report.plain(place)}")
    for place in seen.unsealed:
        click.echo(f"not carried over, since its payloads aren't sealed: {report.plain(place)}")
    click.echo(f"manifest: SHA-256 {seen.manifest_sha256.hex()}")


def _described(wanted: Address, found: Resealed) -> dict[str, object]:
    return {
        "package": str(wanted),
        **asdict(found),
        "manifest_sha256": found.manifest_sha256.hex(),
    }
