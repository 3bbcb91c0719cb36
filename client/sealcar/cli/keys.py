"""The commands about key-encryption keys: `sealcar keys …`, for operators."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.cli.hanging import show_generations, show_versions
from sealcar.cli.keysets import export_tink
from sealcar.cli.listener import prints_json
from sealcar.cli.locking import show_holders
from sealcar.cli.operator import asks_the_admin_socket
from sealcar.cli.progress import packages_moving
from sealcar.cli.shredding import shred
from sealcar.cli.status import show_keys
from sealcar.errors import WrongStateError

if TYPE_CHECKING:
    from sealcar.admin import Admin
    from sealcar.custody import Rewrapped


@click.group(
    short_help="Rotate keys, and see what hangs on them.",
    epilog=report.examples(
        "sealcar keys status",
        "sealcar keys rotate && sealcar keys rewrap",
        "sealcar keys report --packages",
    ),
)
def keys() -> None:
    """See to the daemon's key-encryption keys, through its admin socket.

    Only the daemon's own user and root can reach that socket. No key leaves the
    daemon, but by `export-tink` where the daemon's settings allow it.
    """


keys.add_command(shred)
keys.add_command(export_tink)


@keys.command(
    short_help="Ask every key provider for its health.",
    epilog=report.examples("sealcar keys status --json"),
)
@prints_json
@asks_the_admin_socket
def status(admin: Admin, *, as_json: bool) -> None:
    """Ask every key provider for its health now."""
    found = admin.status()
    if as_json:
        report.emit(asdict(found))
        return
    show_keys(found)


@keys.command(
    short_help="Give a key a new version.",
    epilog=report.examples("sealcar keys rotate", "sealcar keys rotate customer-a"),
)
@click.argument("alias", default="")
@prints_json
@asks_the_admin_socket
def rotate(admin: Admin, alias: str, *, as_json: bool) -> None:
    """Give the key ALIAS a new version, which wraps new package keys from now on.

    Without ALIAS: the key that the store's own key is under. What there is stays under the old
    version until `sealcar keys rewrap`. The key file changes: keep a new copy of it, apart from
    copies of the store.
    """
    made = admin.rotate(alias)
    if as_json:
        report.emit(asdict(made))
        return
    click.echo(f"key {made.alias} has version {made.version} now; next: sealcar keys rewrap")


@keys.command(
    short_help="Move packages to their key's current version.",
    epilog=report.examples(
        "sealcar keys rewrap", "sealcar keys rewrap --from 3", "sealcar keys rewrap --package ocr"
    ),
)
@click.option(
    "--from", "from_version", default="", metavar="VERSION", help="Only what this one wraps."
)
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Only this one, in all its versions or one; may be given more than once.",
)
@prints_json
@asks_the_admin_socket
@click.pass_context
def rewrap(
    ctx: click.Context,
    admin: Admin,
    *,
    from_version: str,
    packages: tuple[str, ...],
    as_json: bool,
) -> None:
    """Move packages to the current version of their key.

    Each gets one generation more, with the package key wrapped anew; payload files are taken over
    as they are. What is under the current version already is skipped, so after an interruption the
    same command goes on where it ended. Generations that differ from a later one in the wrapped
    key only are removed, but for the last two.

    The exit code is that of the first package that couldn't be moved; the others are.
    """
    wanted = [_package(text) for text in packages]
    with packages_moving("moving", quiet=as_json) as progress:
        done = admin.rewrap(progress, from_version=from_version, packages=wanted)
    if as_json:
        report.emit(
            {**_counts(done), "failures": [report.described(error) for error in done.failures]}
        )
    else:
        _say(done)
    if done.failures:
        ctx.exit(done.failures[0].exit_code)


@keys.command(
    short_help="Refuse a version of a key for good.",
    epilog=report.examples("sealcar keys revoke 3", "sealcar keys revoke 3 --key customer-a --yes"),
)
@click.argument("version")
@click.option("--key", "alias", default="", help="Alias of the key; by default the store's.")
@click.option("--yes", is_flag=True, help="Even though packages can't be opened any more then.")
@prints_json
@asks_the_admin_socket
def revoke(admin: Admin, version: str, *, alias: str, yes: bool, as_json: bool) -> None:
    """Refuse VERSION of a key for good, cached keys included.

    Whatever is still under it can't be opened any more, not even to be moved: so `sealcar keys
    rewrap` comes first. Transfers of such packages end. The version that wraps new keys, and the
    one that the store's own key is under, can't be revoked.

    It is this daemon that refuses. Copies of the store open wherever the key itself still works:
    end it there too, by taking its line out of the key file, or at its service.
    """
    if not yes:
        _refuse_if_needed(admin, version, alias)
    done = admin.revoke(version, alias)
    if as_json:
        report.emit(asdict(done))
        return
    click.echo(f"version {done.version} of key {done.alias} is revoked")
    click.echo(
        f"can't be opened any more: {done.packages} packages, {done.older} older generations"
    )
    show_holders(done.holders)


@keys.command(
    "report",
    short_help="Say what hangs on which version.",
    epilog=report.examples("sealcar keys report", "sealcar keys report --json"),
)
@click.option("--packages", is_flag=True, help="Name every generation, not only how many.")
@prints_json
@asks_the_admin_socket
def report_(admin: Admin, *, packages: bool, as_json: bool) -> None:
    """Say what hangs on which version of which key, older generations included.

    It is what the store's files say: nothing is authenticated, no key is asked for. Copies of the
    store elsewhere hang on the versions that they were made under.
    """
    found = list(admin.report())
    if as_json:
        report.emit({"hanging": [asdict(each) for each in found]})
        return
    show_versions(found)
    if packages:
        click.echo()
        show_generations(found)


def _refuse_if_needed(admin: Admin, version: str, alias: str) -> None:
    found = list(admin.report())
    alias = alias or found[0].kek_alias
    lost = [
        f"{each.package}@{each.version}"
        for each in found
        if each.package and each.newest and (each.kek_alias, each.kek_version) == (alias, version)
    ]
    if lost:
        raise WrongStateError(
            f"{len(lost)} packages couldn't be opened any more, {lost[0]} for one: move them with"
            f" `sealcar keys rewrap --from {version}`, or say --yes"
        )


def _package(text: str) -> tuple[str, str]:
    address = Address.whole(text)
    return address.name, address.version


def _counts(done: Rewrapped) -> dict[str, Any]:
    return {
        "packages": done.packages,
        "skipped": done.skipped,
        "removed": done.removed,
        "store_key": done.store_key,
        "failed": done.failed,
    }


def _say(done: Rewrapped) -> None:
    for error in done.failures:
        report.failure(error, as_json=False)
    store = "; the store's own key too" if done.store_key else ""
    click.echo(f"moved {done.packages} packages{store}; skipped {done.skipped}")
    if done.removed:
        click.echo(
            f"removed {done.removed} older generations that differed in the wrapped key only"
        )
    if done.failed:
        click.echo(f"failed: {done.failed}")
