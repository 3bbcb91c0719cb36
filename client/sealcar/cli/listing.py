"""The command that lists packages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sealcar.cli import report, tables
from sealcar.cli.listener import asks_the_daemon, prints_json

if TYPE_CHECKING:
    from sealcar.cli.listener import Reached


@click.command(
    short_help="List packages.",
    epilog=report.examples(
        "sealcar ls", "sealcar ls ocr --json", "sealcar ls --current --ep QNNExecutionProvider"
    ),
)
@click.argument("prefix", default="")
@click.option("--current", is_flag=True, help="Only the current version of each package.")
@click.option("--component", default="", help="Only packages with a component of this name.")
@click.option("--ep", default="", help="Only packages with a variant for this execution provider.")
@prints_json
@asks_the_daemon
def ls(
    client: Reached, *, prefix: str, current: bool, component: str, ep: str, as_json: bool
) -> None:
    """List packages whose name begins with PREFIX, or all that you may list.

    The mark * stands at the version that an address without version means. With --component and
    --ep, a variant of that component has to be for that provider. Nothing here is authenticated:
    `inspect` checks the seal record, `verify` every byte.
    """
    packages = list(client.catalogue.list(prefix, current=current, component=component, ep=ep))
    if as_json:
        report.emit({"packages": [{**asdict(each), "verified": False} for each in packages]})
        return
    # short enough for a terminal of 80 columns
    columns = ("comp.", "variants", "payloads", "assets", "size", "verified")
    tables.show(
        ["package", "version", "gen.", *columns],
        [
            [
                each.name,
                f"{each.version} *" if each.current else each.version,
                each.generation,
                each.components,
                each.variants,
                each.payloads,
                each.assets,
                report.size(each.size),
                "no",
            ]
            for each in packages
        ],
    )
