"""The commands that take every key away from the daemon, and give it its keys again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sealcar.cli import report, tables
from sealcar.cli.listener import prints_json
from sealcar.cli.operator import asks_the_admin_socket

if TYPE_CHECKING:
    from sealcar.admin import Admin
    from sealcar.custody import Holder


@click.command(
    short_help="Drop every key, refuse what needs one.",
    epilog=report.examples("sealcar lock", "sealcar lock --admin /run/sealcar/admin --json"),
)
@prints_json
@asks_the_admin_socket
def lock(admin: Admin, *, as_json: bool) -> None:
    """Have the daemon drop every key, and refuse what needs one until `sealcar unlock`.

    Transfers under way end and transactions are aborted before this command returns. Nobody can
    take back what a process has in its memory already: those that are connected are listed. Ending
    them is up to you. A daemon that is started again is locked only if daemon.start says so.
    """
    done = admin.lock()
    if as_json:
        report.emit(asdict(done))
        return
    click.echo(f"locked; {done.aborted} transactions aborted")
    show_holders(done.holders)


def show_holders(holders: tuple[Holder, ...]) -> None:
    """Name the processes that plaintext can't be taken back from."""
    if not holders:
        return
    click.echo("Plaintext stays in the memory of these processes until they exit:")
    tables.show(
        ["session", "pid", "uid", "gid", "listener"],
        [
            [each.session, each.pid or "unknown", each.uid, each.gid, each.listener]
            for each in holders
        ],
    )


@click.command(
    short_help="Open the keys again.",
    epilog=report.examples("sealcar unlock", "sealcar unlock --admin /run/sealcar/admin"),
)
@prints_json
@asks_the_admin_socket
def unlock(admin: Admin, *, as_json: bool) -> None:
    """Have the daemon open its key providers again, after a lock or a locked start.

    It stays locked, with exit code 7, if the store's own key can't be had.
    """
    admin.unlock()
    if as_json:
        report.emit({"locked": False})
        return
    click.echo("unlocked")
