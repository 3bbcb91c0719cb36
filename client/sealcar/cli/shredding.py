"""The command that removes a package for good."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.listener import prints_json
from sealcar.cli.locking import show_holders
from sealcar.cli.operator import asks_the_admin_socket
from sealcar.errors import NotFoundError, WrongStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.admin import Admin

NOT_REACHED: Final = (
    "copies of the store: backups, exports, replicas",
    "what a file system or bucket keeps of removed files: snapshots, versions",
    "blocks of the disk until they are written anew",
    "plaintext in the memory of processes that were handed it",
)
FINAL: Final = (
    "Final everywhere is only the end of the key-encryption key. A package that was imported under"
    " one of its own (`sealcar import --kek ALIAS`) dies with it: delete that key where it is kept."
)


@click.command(
    short_help="Remove a package for good.",
    epilog=report.examples("sealcar keys shred ocr", "sealcar keys shred ocr@1.2 --yes"),
)
@click.argument("package", metavar="NAME[@VERSION]")
@click.option("--yes", is_flag=True, help="Do it. Without, it is only said what would be done.")
@prints_json
@asks_the_admin_socket
def shred(admin: Admin, package: str, *, yes: bool, as_json: bool) -> None:
    """Remove a package for good: every generation, and with it the wrapped key.

    NAME alone means all its versions. Its name stays, as a tombstone: the version can't be imported
    again. It needs no key of the package, so a damaged one can be shredded too.

    What this can't reach is said before and after. Exit code 1 without --yes.
    """
    address = Address.whole(package)
    generations = _generations(admin, address)
    if not as_json:
        click.echo(f"to be removed: {address}, {generations} generations")
        _say_not_reached()
    if not yes:
        raise WrongStateError(f"{generations} generations are there still: say --yes")
    done = admin.shred(address.name, address.version)
    if as_json:
        report.emit({**asdict(done), "not_reached": NOT_REACHED})
        return
    for each in done.versions:
        click.echo(f"shredded {each.package}@{each.version}: {each.generations} generations")
    _say_not_reached()
    show_holders(done.holders)


def _generations(admin: Admin, address: Address) -> int:
    found = sum(
        each.package == address.name and address.version in ("", each.version)
        for each in admin.report()
    )
    if not found:
        raise NotFoundError(f"{address}: there is no such package, or it was shredded before")
    return found


def _say_not_reached() -> None:
    _lines("Not reached by this command:", NOT_REACHED)
    click.echo(FINAL)


def _lines(title: str, lines: Iterable[str]) -> None:
    click.echo(title)
    for line in lines:
        click.echo(f"  {line}")
