"""The command that shows what a package in the store holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from sealcar.address import Address
from sealcar.cli import drawing, report, tables
from sealcar.cli.drawing import Node
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealcar.catalogue import AssetInfo, PackageDetail, VariantInfo
    from sealcar.cli.listener import Reached
    from sealcar.transfer.payloads import PayloadRef

UNVERIFIED: Final = "NOT VERIFIED: the daemon is locked, so nobody checked the seal record"


@click.command(
    short_help="Show what a package holds.",
    epilog=report.examples(
        "sealcar inspect ocr",
        "sealcar inspect ocr@1.2/det/qnn-v73",
        "sealcar inspect ocr/det/onnx/tokenizer%2Fvocab.txt --json",
        "sealcar inspect ocr/det/onnx --resolve model.onnx",
    ),
)
@click.argument("address")
@click.option(
    "--resolve",
    "reference",
    metavar="REFERENCE",
    help="Instead, show the payloads that this text stands for in the executor_info of ADDRESS,"
    " which is a variant.",
)
@click.option("--generation", type=click.IntRange(min=0), default=0, help="0: the newest.")
@prints_json
@asks_the_daemon
def inspect(
    client: Reached, address: str, *, reference: str | None, generation: int, as_json: bool
) -> None:
    """Draw what ADDRESS holds, after checking its seal record.

    ADDRESS is a package, or a component, variant or payload in it. While the daemon is locked it
    can't check the record: then the first line, and "verified" with --json, say so.
    """
    wanted = Address.parse(address)
    if reference is not None:
        _resolve(client, wanted, (reference, generation), as_json=as_json)
        return
    package = client.catalogue.get(wanted.name, wanted.version, generation)
    variants = package.select(wanted.component, wanted.variant)
    if wanted.payload:
        variants[0].payload(wanted.payload)  # says what there is if it isn't there
    assets = package.assets if wanted == wanted.package else ()
    current = _current(client, package)
    if as_json:
        described = _described(package, variants, assets, wanted.payload)
        report.emit({**described, "current_version": current})
        return
    if not package.verified:
        click.echo(UNVERIFIED)
    branches = [*_branches(package, variants, assets, wanted.payload), *_siblings(package, current)]
    drawing.draw(Node(_title(package), tuple(branches)))


def _resolve(client: Reached, wanted: Address, asked: tuple[str, int], *, as_json: bool) -> None:
    from sealcar.transfer.scopes import ScopeName  # noqa: PLC0415  (loads the transport)

    if not wanted.variant or wanted.payload:
        raise InvalidRequestError(
            "--resolve takes the address of a variant: NAME/COMPONENT/VARIANT"
        )
    reference, generation = asked
    scope = ScopeName(wanted.name, wanted.component, wanted.variant, wanted.version, generation)
    found = client.catalogue.resolve(scope, reference)
    if as_json:
        report.emit({**asdict(found), "payloads": [_payload(each) for each in found.payloads]})
        return
    tables.show(
        ["payload", "kind", "size"],
        [[each.name, each.kind, report.size(each.size)] for each in found.payloads],
    )


def _title(package: PackageDetail) -> str:
    summary = package.summary
    key = f"key {package.kek_alias}, version {package.kek_version}"
    place = f"{summary.name}@{summary.version}, generation {summary.generation}"
    return f"{place}  ({report.size(summary.size)}, {key}, id {package.package_id.hex()})"


def _branches(
    package: PackageDetail,
    variants: Sequence[VariantInfo],
    assets: Sequence[AssetInfo],
    only: str,
) -> Iterator[Node]:
    if package.description:
        yield Node(f"says of itself: {package.description}")
    for name in dict.fromkeys(each.component for each in variants):
        own = (_variant(each, only) for each in variants if each.component == name)
        yield drawing.component(name, "", own)
    yield from drawing.assets((each.uri, map(_file, each.payloads)) for each in assets)


def _current(client: Reached, package: PackageDetail) -> str:
    """Return the version that an empty version means; empty if there is none."""
    name = package.summary.name
    if package.summary.current:
        return package.summary.version
    found = client.catalogue.list(name, current=True)
    return next((each.version for each in found if each.name == name), "")


def _siblings(package: PackageDetail, current: str) -> Iterator[Node]:
    shown = package.summary
    versions = [f"{each} (current)" if each == current else each for each in package.versions]
    yield Node(f"versions: {', '.join(versions)}")
    generations = [
        f"{each} (shown)" if each == shown.generation else str(each) for each in package.generations
    ]
    yield Node(f"generations: {', '.join(generations)}")


def _variant(variant: VariantInfo, only: str) -> Node:
    made_for = (variant.ep, variant.device, variant.compatibility)
    shown = [each for each in variant.payloads if only in ("", each.name)]
    size = report.size(sum(each.size for each in shown))
    state = f"sealed  {size}" if variant.sealed else "NOT SEALED: never served"
    return drawing.variant(variant.variant, made_for, state, map(_file, shown))


def _file(payload: PayloadRef) -> Node:
    return drawing.file(
        payload.name, payload.size, payload.kind, *(() if payload.sealed else ("plain",))
    )


def _described(
    package: PackageDetail,
    variants: Sequence[VariantInfo],
    assets: Sequence[AssetInfo],
    only: str,
) -> dict[str, Any]:
    return {
        **asdict(package.summary),
        "verified": package.verified,
        "package_id": package.package_id.hex(),
        "kek_alias": package.kek_alias,
        "kek_version": package.kek_version,
        "description": package.description,
        "manifest_sha256": package.manifest_sha256.hex(),
        "versions": list(package.versions),
        "generations": list(package.generations),
        "variants": [_variant_described(each, only) for each in variants],
        "shared_assets": [
            {"uri": each.uri, "payloads": [_payload(one) for one in each.payloads]}
            for each in assets
        ],
    }


def _variant_described(variant: VariantInfo, only: str) -> dict[str, Any]:
    shown = [_payload(each) for each in variant.payloads if only in ("", each.name)]
    return {**asdict(variant), "payloads": shown}


def _payload(payload: PayloadRef) -> dict[str, Any]:
    return {**asdict(payload), "identity": payload.identity.hex()}
