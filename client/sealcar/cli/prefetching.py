"""The command that has variants got ready before anybody opens them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.cli.progress import bytes_moving
from sealcar.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.catalogue.prefetching import Prefetched
    from sealcar.cli.listener import Reached
    from sealcar.transfer.scopes import ScopeName


@click.command(
    short_help="Have a package ready before it is loaded.",
    epilog=report.examples(
        "sealcar prefetch ocr/det/qnn-v73",
        "sealcar prefetch ocr --shared",
    ),
)
@click.argument("address")
@click.option(
    "--shared",
    is_flag=True,
    help='Decrypt the weights, for workers that load with initializers="shared".',
)
@click.option("--generation", type=click.IntRange(min=0), default=0, help="0: the newest.")
@prints_json
@asks_the_daemon
def prefetch(
    client: Reached, address: str, *, shared: bool, generation: int, as_json: bool
) -> None:
    """Have the daemon get ADDRESS ready: a variant, or all of a component or package.

    The key is had, every payload's end checked, and the ciphertext in the page cache, out of the
    bucket if the store is in one. With --shared weights lie decrypted in memory, which counts in
    the daemon's transfer.memory_limit until others want it, or for five minutes in which no process
    has them.
    """
    wanted = Address.parse(address)
    if wanted.payload:
        raise InvalidRequestError("whole variants are got ready: leave out the payload")
    begun = time.monotonic()
    found = []
    for scope in _scopes(client, wanted, generation):
        with bytes_moving(f"{scope.component}/{scope.variant}", quiet=as_json) as show:
            found.append(client.catalogue.prefetch(scope, shared=shared, progress=show))
    seconds = time.monotonic() - begun
    if as_json:
        report.emit({"seconds": round(seconds, 3), "variants": [_described(one) for one in found]})
        return
    for one in found:
        click.echo(report.plain(_line(one)))


def _scopes(client: Reached, wanted: Address, generation: int) -> Iterator[ScopeName]:
    from sealcar.transfer.scopes import ScopeName  # noqa: PLC0415  (loads the transport)

    if wanted.variant:
        yield ScopeName(wanted.name, wanted.component, wanted.variant, wanted.version, generation)
        return
    package = client.catalogue.get(wanted.name, wanted.version, generation)
    variants = [one for one in package.select(wanted.component, "") if one.sealed]
    if not variants:
        raise NotFoundError(f"{wanted} has no sealed variant")
    for one in variants:
        summary = package.summary
        yield ScopeName(
            summary.name, one.component, one.variant, summary.version, summary.generation
        )


def _described(found: Prefetched) -> dict[str, object]:
    scope = found.scope
    return {
        "address": str(_address(scope)),
        "generation": scope.generation,
        "payloads": found.payloads,
        "size": found.size,
        "shared": found.shared,
    }


def _line(found: Prefetched) -> str:
    shared = f", {report.size(found.shared)} of it decrypted in memory" if found.shared else ""
    return (
        f"{_address(found.scope)}, generation {found.scope.generation}:"
        f" {report.many(found.payloads, 'payload')}, {report.size(found.size)} ready{shared}"
    )


def _address(scope: ScopeName) -> Address:
    return Address(scope.package, scope.version, scope.component, scope.variant)
