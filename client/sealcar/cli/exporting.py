"""The command that lets packages out."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving
from sealcar.errors import InvalidRequestError
from sealcar.exports import Destination

if TYPE_CHECKING:
    from sealcar.client import Client

_PLAIN = "this is PLAINTEXT: who reads these files has the models; nothing seals them any more"


@click.command(
    short_help="Copy a package out of the store, sealed or plain.",
    epilog=report.examples(
        "sealcar export ocr ./ocr-sealed",
        "sealcar export ocr@1.2 ocr.tar --tar --json",
        "sealcar export ocr ./ocr-plain --plain",
    ),
)
@click.argument("address")
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Opened. Needs a right that no other includes.")
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
    client: Client,
    *,
    address: str,
    destination: Path,
    plain: bool,
    tar: bool,
    generation: int,
    as_json: bool,
) -> None:
    """Copy the package ADDRESS to DEST, where nothing may be yet.

    Sealed, as it lies in the store: `sealcar import` takes it back, here or at a daemon with the
    same key. With --plain opened, as it was before its import: for its owner's eyes only, and for
    a place that you can protect. DEST is there whole, or not at all.
    """
    wanted = Address.parse(address)
    if wanted != wanted.package:
        raise InvalidRequestError(f"export takes a whole package: {wanted.package}")
    begun = time.monotonic()
    with bytes_moving(f"exporting {wanted}", quiet=as_json) as progress:
        made = client.catalogue.export(
            wanted.name,
            Destination(destination, tar),
            version=wanted.version,
            generation=generation,
            plain=plain,
            progress=progress,
        )
    seconds = time.monotonic() - begun
    if plain:
        click.echo(f"sealcar: {destination}: {_PLAIN}", err=True)
    if as_json:
        what = {"destination": str(destination), "plain": plain, "seconds": round(seconds, 3)}
        report.emit({**asdict(made), **what})
        return
    click.echo(
        f"exported {made.name}@{made.version}, generation {made.generation}, to {destination}:"
        f" {made.files} files, {report.size(made.size)} in {seconds:.1f} s"
    )
