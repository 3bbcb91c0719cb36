"""The commands that send packages to registries, and bring them in from there."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sealcar.address import Address
from sealcar.cli import recipients, report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving
from sealcar.cli.recipients import for_somebody
from sealcar.cli.registry_options import reaches_a_registry

if TYPE_CHECKING:
    from datetime import datetime

    from sealcar.cli.listener import Reached
    from sealcar.oci import Access, Reference


@click.command(
    short_help="Send a package to a registry, sealed.",
    epilog=report.examples(
        "sealcar push ocr registry.example/models/ocr:1.2",
        "sealcar push ocr@1.2 registry.example/for-them/ocr:1.2 --to customer --sign",
        "sealcar push ocr 127.0.0.1:5000/ocr:test --plain-http --json",
    ),
)
@click.argument("address")
@for_somebody("")
@click.option(
    "--generation",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="This generation; by default the newest.",
)
@click.option(
    "--mount-from",
    "other",
    metavar="REPOSITORY",
    default="",
    help="Another repository of the same registry, which may have some of the payloads.",
)
@reaches_a_registry
@prints_json
@asks_the_daemon
def push(  # noqa: PLR0913  (one parameter an option)
    client: Reached,
    *,
    address: str,
    place: Reference,
    access: Access,
    recipient: str | None,
    not_after: datetime | None,
    sign: bool,
    generation: int,
    other: str,
    as_json: bool,
) -> None:
    """Send the package ADDRESS to a registry, as the OCI artifact REFERENCE: HOST/REPOSITORY:TAG.

    It is what `sealcar export` gives: ciphertext, one layer a payload, and the manifest with its
    seal record. Payloads that the registry has already aren't sent again. The tag comes last, so
    nobody gets half a package; sent again after a failure, it goes on with what is missing.

    With --to sealed for somebody else, whose daemon has the private half of the key.
    """
    from sealcar import oci  # noqa: PLC0415  (an extra, and not needed for --help)

    wanted = Address.whole(address)
    target = recipients.recipient(recipient, not_after, sign=sign)
    begun = time.monotonic()
    with bytes_moving(f"pushing {wanted}", quiet=as_json) as progress:
        made = oci.push(
            client.catalogue,
            oci.Wanted(wanted.name, wanted.version, generation, target),
            place,
            access=access,
            other=other,
            progress=progress,
        )
    seconds = time.monotonic() - begun
    if as_json:
        report.emit({**asdict(made), "reference": str(place), "seconds": round(seconds, 3)})
        return
    what = report.plain(f"{made.name}@{made.version}")
    click.echo(
        f"pushed {what}, generation {made.generation}, to {place}:"
        f" {report.many(made.layers, 'payload')}, {report.size(made.size)};"
        f" {made.uploaded} sent, {report.size(made.sent)} in {seconds:.1f} s"
    )
    click.echo(made.digest)


@click.command(
    short_help="Import a sealed package out of a registry.",
    epilog=report.examples(
        "sealcar pull registry.example/models/ocr:1.2",
        "sealcar pull registry.example/for-us/ocr:1.2 --name bought-ocr",
        "sealcar pull 127.0.0.1:5000/ocr:test --plain-http --json",
    ),
)
@click.option("--name", help="Name in the store; by default the package's own.")
@click.option("--version", help="Version in the store; by default the package's own.")
@click.option("--kek", default="", help="Alias of the key to seal under; by default the store's.")
@reaches_a_registry
@prints_json
@asks_the_daemon
def pull(  # noqa: PLR0913  (one parameter an option)
    client: Reached,
    *,
    place: Reference,
    access: Access,
    name: str | None,
    version: str | None,
    kek: str,
    as_json: bool,
) -> None:
    """Import the package that `sealcar push` sent to REFERENCE: HOST/REPOSITORY:TAG or …@sha256:….

    What comes is compared with its digests, and by the daemon with its seal record, before
    anything appears in the store; nothing of it is put on another disk. A blob that breaks off
    goes on where it was; after a failure, the next pull begins anew. A digest says exactly which
    artifact it is; whoever may write to the registry can move a tag.

    Name, version and key are the package's own, unless somebody else sealed it for this daemon.
    """
    from sealcar import oci  # noqa: PLC0415  (an extra, and not needed for --help)

    begun = time.monotonic()
    with bytes_moving(f"pulling {place.repository}", quiet=as_json) as progress:
        made = oci.pull(
            client.catalogue,
            place,
            access=access,
            name=name,
            version=version,
            kek=kek,
            progress=progress,
        )
    seconds = time.monotonic() - begun
    if as_json:
        told = {**asdict(made), "package_id": made.package_id.hex(), "reference": str(place)}
        report.emit({**told, "seconds": round(seconds, 3)})
        return
    what = report.plain(f"{made.name}@{made.version}")
    click.echo(
        f"imported {what}, generation {made.generation}, from {place}:"
        f" {report.many(made.payloads, 'payload')}, {report.size(made.size)} in {seconds:.1f} s"
    )
    click.echo(made.digest)
