"""The command that brings packages in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealcar.cli import report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving

if TYPE_CHECKING:
    from sealcar.cli.listener import Reached


@click.command(
    "import",
    short_help="Import and seal a model package, or one model.",
    epilog=report.examples(
        "sealcar import detector.onnx --name ocr --component det",
        "sealcar import ./ocr-package --version 2 --json",
        "sealcar import ocr-package.tar --kek customer",
        "sealcar import ocr-sealed.tar",
    ),
)
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="Name in the store; by default the package's own, or the file's.")
@click.option("--version", help="Version in the store; by default the package's own, else 1.")
@click.option("--component", default="main", show_default=True, help="For a bare model.")
@click.option("--variant", default="onnx", show_default=True, help="For a bare model.")
@click.option("--kek", default="", help="Alias of the key to seal under; by default the store's.")
@click.option(
    "--keep-inline",
    is_flag=True,
    help="Leave big initializers in their models. By default those of 64 KiB and more become a"
    " payload of their own, which can be mapped and shared.",
)
@prints_json
@asks_the_daemon
def import_(  # noqa: PLR0913  (one parameter an option)
    client: Reached,
    *,
    source: Path,
    name: str | None,
    version: str | None,
    component: str,
    variant: str,
    kek: str,
    keep_inline: bool,
    as_json: bool,
) -> None:
    """Import SOURCE and seal it: a model package, or one model.

    A package is a directory or an uncompressed tar archive of one. A model is an ONNX file, or one
    in ONNX Runtime's own format (.ort). External data comes along; a file that a model or manifest
    names must lie in the package, or in a shared asset of it. The daemon seals bytes as they
    arrive, so nothing of SOURCE is written anywhere in plain. SOURCE itself stays as it is.

    A sealed export is recognised by its seal record, and comes in as it is: with its name, version
    and generation, under its own key, every byte checked. One that somebody else sealed for this
    daemon may get another name, and comes under a key of this store.
    """
    from sealcar import publish  # noqa: PLC0415  (reads models: not needed for --help)

    begun = time.monotonic()
    sealed = publish.sealed_plan(source, name=name, version=version)
    with (
        sealed
        or publish.plan(
            source,
            name=name,
            version=version,
            component=component,
            variant=variant,
            keep_inline=keep_inline,
        ) as plan,
        bytes_moving(f"sealing {plan.name}", quiet=as_json) as progress,
    ):
        made = client.catalogue.import_(plan, kek=kek, sealed=sealed is not None, progress=progress)
    seconds = time.monotonic() - begun
    if as_json:
        report.emit(
            {
                "name": made.name,
                "version": made.version,
                "generation": made.generation,
                "package_id": made.package_id.hex(),
                "payloads": len(plan.payloads),
                "size": plan.size,
                "seconds": round(seconds, 3),
            }
        )
        return
    what = report.plain(f"{made.name}@{made.version}")
    payloads = report.many(len(plan.payloads), "payload")
    click.echo(
        f"imported {what}, generation {made.generation}:"
        f" {payloads}, {report.size(plan.size)} in {seconds:.1f} s"
    )
