"""The command that says whether a package in the store is as it should be, but for payloads."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.inspecting import UNVERIFIED
from sealcar.cli.listener import asks_the_daemon, prints_json

if TYPE_CHECKING:
    from sealcar.catalogue import Validated
    from sealcar.cli.listener import Reached

_WRONG: Final = 1


@click.command(
    short_help="Check the structure of a package.",
    epilog=report.examples("sealcar validate ocr", "sealcar validate ocr@1.2 --generation 3"),
)
@click.argument("address")
@click.option("--generation", type=click.IntRange(min=0), default=0, help="0: the newest.")
@prints_json
@asks_the_daemon
def validate(client: Reached, address: str, *, generation: int, as_json: bool) -> None:
    """Check the package ADDRESS without reading payloads, and list all that is wrong.

    These are the rules of the package format, the seal record, all that isn't what was sealed, and
    whether every file is there with the right size. `sealcar verify` reads every byte instead.

    Exit code 1 if there are errors; warnings alone are none.
    """
    wanted = Address.whole(address)
    found = client.catalogue.validate(wanted.name, wanted.version, generation)
    if as_json:
        report.emit(asdict(found))
    else:
        _show(found)
    if found.errors:
        click.get_current_context().exit(_WRONG)


def _show(found: Validated) -> None:
    if not found.verified:
        click.echo(UNVERIFIED)
    for each in found.findings:
        click.echo(report.plain(f"{each.severity}: {each.code}: {each.place}: {each.message}"))
    place = report.plain(f"{found.name}@{found.version}, generation {found.generation}")
    counts = report.findings(len(found.errors), len(found.findings) - len(found.errors))
    click.echo(f"{place}: {counts}")
