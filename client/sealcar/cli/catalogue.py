"""The commands that look into the store: ls, inspect, verify."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sealcar.address import Address
from sealcar.cli import report, tables
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving
from sealcar.errors import InvalidRequestError

if TYPE_CHECKING:
    from sealcar.catalogue import VariantInfo
    from sealcar.client import Client


@click.command(
    short_help="List packages.", epilog=report.examples("sealcar ls", "sealcar ls ocr --json")
)
@click.argument("prefix", default="")
@prints_json
@asks_the_daemon
def ls(client: Client, prefix: str, *, as_json: bool) -> None:
    """List packages whose name begins with PREFIX, or all that you may list.

    The mark * stands at the version that an address without version means. Nothing here is
    authenticated: `inspect` checks the seal record, `verify` every byte.
    """
    packages = list(client.catalogue.list(prefix))
    if as_json:
        report.emit({"packages": [asdict(each) for each in packages]})
        return
    tables.show(
        ["package", "version", "", "generation", "components", "variants", "payloads", "size"],
        [
            [
                each.name,
                each.version,
                "*" if each.current else "",
                each.generation,
                each.components,
                each.variants,
                each.payloads,
                report.size(each.size),
            ]
            for each in packages
        ],
    )


@click.command(
    short_help="Show what a package holds.",
    epilog=report.examples(
        "sealcar inspect ocr",
        "sealcar inspect ocr@1.2/det/qnn-v73",
        "sealcar inspect ocr/det/onnx/tokenizer%2Fvocab.txt --json",
    ),
)
@click.argument("address")
@prints_json
@asks_the_daemon
def inspect(client: Client, address: str, *, as_json: bool) -> None:
    """Show what ADDRESS holds, after checking its seal record.

    ADDRESS is a package, or a component, variant or payload in it.
    """
    wanted = Address.parse(address)
    package = client.catalogue.get(wanted.name, wanted.version)
    variants = package.select(wanted.component, wanted.variant)
    if wanted.payload:
        variants[0].payload(wanted.payload)  # says what there is if it isn't there
    summary = package.summary
    if as_json:
        report.emit(
            {
                **asdict(summary),
                "package_id": package.package_id.hex(),
                "kek_alias": package.kek_alias,
                "kek_version": package.kek_version,
                "description": package.description,
                "variants": [_variant(each, wanted.payload) for each in variants],
            }
        )
        return
    click.echo(f"{summary.name}@{summary.version}, generation {summary.generation}")
    click.echo(f"  id   {package.package_id.hex()}")
    click.echo(f"  key  {package.kek_alias}, version {package.kek_version}")
    for each in variants:
        _show(each, wanted.payload)


@click.command(
    short_help="Check every byte of a package.",
    epilog=report.examples("sealcar verify ocr", "sealcar verify ocr@1.2 && deploy"),
)
@click.argument("address")
@prints_json
@asks_the_daemon
def verify(client: Client, address: str, *, as_json: bool) -> None:
    """Read every byte of the package ADDRESS and check it against the seal record.

    Exit code 6 if anything isn't what the holder of the key wrote; the message names the first
    such payload.
    """
    wanted = Address.parse(address)
    if wanted != wanted.package:
        raise InvalidRequestError(f"verify takes a whole package: {wanted.package}")
    begun = time.monotonic()
    with bytes_moving(f"verifying {wanted}", quiet=as_json) as progress:
        found = client.catalogue.verify(wanted.name, wanted.version, progress=progress)
    seconds = time.monotonic() - begun
    if as_json:
        report.emit({"package": str(wanted), "seconds": round(seconds, 3), **asdict(found)})
        return
    click.echo(
        f"{wanted}, generation {found.generation}: {found.payloads} payloads,"
        f" {report.size(found.size)}, all authentic, in {seconds:.1f} s"
    )


def _variant(variant: VariantInfo, only: str) -> dict[str, Any]:
    value = asdict(variant)
    value["payloads"] = [
        {**asdict(each), "identity": each.identity.hex()}
        for each in variant.payloads
        if only in ("", each.name)
    ]
    return value


def _show(variant: VariantInfo, only: str) -> None:
    made_for = ", ".join(
        part for part in (variant.ep, variant.device, variant.compatibility) if part
    )
    state = "" if variant.sealed else "  NOT SEALED: never served"
    title = f"{variant.component}/{variant.variant}  ({made_for or 'any provider'}){state}"
    click.echo(f"\n{report.plain(title)}")
    tables.show(
        ["payload", "kind", "size", "at rest"],
        [
            [
                each.name,
                each.kind,
                report.size(each.size),
                "sealed" if each.sealed else "plain",
            ]
            for each in variant.payloads
            if only in ("", each.name)
        ],
    )
