"""The commands that change which packages there are: use, rm, prune."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sealcar.address import Address
from sealcar.cli import report, tables
from sealcar.cli.listener import asks_the_daemon, prints_json
from sealcar.errors import InvalidRequestError, WrongStateError

if TYPE_CHECKING:
    from sealcar.cli.listener import Reached


@click.command(
    short_help="Make another version the current one.",
    epilog=report.examples("sealcar use ocr@2", "sealcar use ocr@1.9 --json"),
)
@click.argument("address", metavar="NAME@VERSION")
@prints_json
@asks_the_daemon
def use(client: Reached, address: str, *, as_json: bool) -> None:
    """Make VERSION the one that an address without a version means.

    It has to open authentically. Whoever opened another version before goes on with that.
    """
    wanted = _version(address)
    previous = client.catalogue.use(wanted.name, wanted.version)
    if as_json:
        report.emit({"name": wanted.name, "version": wanted.version, "previous_version": previous})
        return
    before = f"before it was {report.plain(previous)}" if previous else "none was before"
    click.echo(f"{wanted} is the current version; {before}")


@click.command(
    short_help="Remove a version, or an older generation.",
    epilog=report.examples("sealcar rm ocr@1", "sealcar rm ocr@2 --generation 3 --yes"),
)
@click.argument("address", metavar="NAME@VERSION")
@click.option(
    "--generation",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only this one, which must not be the newest.",
)
@click.option("--yes", is_flag=True, help="Don't ask.")
@prints_json
@asks_the_daemon
def rm(client: Reached, address: str, *, generation: int | None, yes: bool, as_json: bool) -> None:
    """Take VERSION of the package NAME out of the store.

    The current version can be removed only if it is the last one: `sealcar use` makes another one
    current. Transfers from it and transactions on it end. It can be imported again from its source,
    but not from a sealed export of what was removed; `sealcar keys shred` removes for good. Asks
    before, on a terminal; elsewhere exit code 1 without --yes.
    """
    wanted = _version(address)
    what = f"generation {generation} of {wanted}" if generation else f"{wanted}, all of it"
    if not yes:
        _ask(what, as_json=as_json)
    gone = client.catalogue.remove(wanted.name, wanted.version, generation or 0)
    if as_json:
        report.emit({"name": wanted.name, "version": wanted.version, "generations": gone})
        return
    click.echo(f"removed {what}: {report.many(len(gone), 'generation')}")


@click.command(
    short_help="Remove older generations, and what crashes left.",
    epilog=report.examples("sealcar prune --dry-run", "sealcar prune ocr --keep 1"),
)
@click.argument("address", default="", metavar="[NAME[@VERSION]]")
@click.option(
    "--keep",
    type=click.IntRange(min=1, max=1_000_000),
    default=2,
    show_default=True,
    metavar="N",
    help="How many of the newest generations of each version stay.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@prints_json
@asks_the_daemon
def prune(client: Reached, address: str, *, keep: int, dry_run: bool, as_json: bool) -> None:
    """Remove generations that were followed by others, of one package or all that you may manage.

    Those in use stay: that somebody opened or read within ten minutes, or that a transaction is
    based on; so does the one that a pin of the policy names.
    """
    wanted = Address.whole(address) if address else None
    name, version = (wanted.name, wanted.version) if wanted else ("", "")
    done = client.catalogue.prune(name, version, keep=keep, dry_run=dry_run)
    if as_json:
        report.emit({**asdict(done), "dry_run": dry_run})
        return
    rows = [[each.name, each.version, each.generation] for each in done.generations]
    if rows:
        tables.show(["package", "version", "generation"], rows)
    verb = "would free" if dry_run else "freed"
    gone = report.many(len(done.generations), "generation")
    click.echo(f"{gone}; {verb} {report.size(done.freed)}")


def _ask(what: str, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise WrongStateError(f"to remove {what}, say --yes")
    if not click.confirm(f"Remove {what}?", err=True):
        raise WrongStateError("nothing was removed")


def _version(text: str) -> Address:
    address = Address.whole(text)
    if not address.version:
        raise InvalidRequestError(f"name a version, as in {address.name}@1")
    return address
