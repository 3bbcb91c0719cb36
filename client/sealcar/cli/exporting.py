"""The command that lets packages out."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sealcar.address import Address
from sealcar.cli import recipients, report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving
from sealcar.cli.recipients import for_somebody
from sealcar.exports import Destination

if TYPE_CHECKING:
    from datetime import datetime

    from sealcar.cli.listener import Reached

_PLAIN: Final = (
    "this is PLAINTEXT: who reads these files has the models; nothing seals them any more"
)


@click.command(
    short_help="Copy a package out of the store, sealed or plain.",
    epilog=report.examples(
        "sealcar export ocr ./ocr-sealed",
        "sealcar export ocr@1.2 ocr.tar --tar --json",
        "sealcar export ocr ./ocr-plain --plain",
        "sealcar export ocr ocr-for-them.tar --to customer --sign --not-after 2031-12-31",
        "sealcar export ocr ocr-for-them.tar --to file:customer.pem",
    ),
)
@click.argument("address")
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Opened. Needs a right that no other includes.")
@for_somebody("One tar file.")
@click.option("--tar", is_flag=True, help="One tar file, uncompressed, instead of a directory.")
@click.option(
    "--generation",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="This generation; by default the newest.",
)
@prints_json
@asks_the_daemon
def export(  # noqa: PLR0913  (one parameter an option)
    client: Reached,
    *,
    address: str,
    destination: Path,
    plain: bool,
    recipient: str | None,
    not_after: datetime | None,
    sign: bool,
    tar: bool,
    generation: int,
    as_json: bool,
) -> None:
    """Copy the package ADDRESS to DEST, where nothing may be yet.

    Sealed, as it lies in the store: `sealcar import` takes it back, here or at a daemon with the
    same key. With --plain opened, as it was before its import: for its owner's eyes only, and for
    a place that you can protect. DEST is there whole, or not at all.

    With --to sealed for somebody else, whose daemon has the private half of the key: `sealcar
    import` there wraps it under that store's own key. He can open this package from then on.
    """
    wanted = Address.whole(address)
    target = recipients.recipient(recipient, not_after, sign=sign)
    begun = time.monotonic()
    with bytes_moving(f"exporting {wanted}", quiet=as_json) as progress:
        made = client.catalogue.export(
            wanted.name,
            Destination(destination, tar or target is not None, target),
            version=wanted.version,
            generation=generation,
            plain=plain,
            progress=progress,
        )
    seconds = time.monotonic() - begun
    place = report.plain(str(destination))
    if plain:
        click.echo(f"sealcar: {place}: {_PLAIN}", err=True)
    if as_json:
        besides = {"destination": str(destination), "plain": plain, "seconds": round(seconds, 3)}
        report.emit({**asdict(made), **besides})
        return
    what = report.plain(f"{made.name}@{made.version}")
    click.echo(
        f"exported {what}, generation {made.generation}, to {place}:"
        f" {report.many(made.files, 'file')}, {report.size(made.size)} in {seconds:.1f} s"
    )
