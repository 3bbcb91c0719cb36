"""`sealcar policy`: whether a policy file is one, and what it decides."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sealcar.address import Address
from sealcar.cli import report
from sealcar.errors import InvalidRequestError
from sealcar.names import shown
from sealcar_server import settings_reading
from sealcar_server.access.grants import overflow_id
from sealcar_server.access.policy import Policy, Right
from sealcar_server.access.principal import Principal
from sealcar_server.access.spiffe import is_id
from sealcar_server.cli import policy_bounds
from sealcar_server.cli.places import config as default_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.access.policy import Grant

NO: Final = 1


@click.group(
    short_help="Check a policy file, and explain what it decides.",
    epilog=report.examples("sealcar policy check policy.toml"),
)
def policy() -> None:
    """Check a policy file, and explain what it decides. No daemon is asked."""


@policy.command(
    short_help="Say whether a file is a policy.",
    epilog=report.examples("sealcar policy check /etc/sealcar/policy.toml"),
)
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Say whether FILE is a policy that a daemon would take, and what is wrong if it isn't.

    Run it as the daemon's user or root, and before the file is put in place: a daemon that runs
    reads it at once.
    """
    rules = Policy.load(file)
    click.echo(f"{file}: {policy_bounds.counted(rules)}")
    for place, grant in enumerate(rules.grants, 1):
        click.echo(f"  {place}: {_in_short(grant)}")
    for line in policy_bounds.listed(rules):
        click.echo(f"  {line}")


@policy.command(
    short_help="Say who may do what, and why.",
    epilog=report.examples(
        "sealcar policy explain --uid 1000 read ocr/det",
        "sealcar policy explain --spiffe spiffe://example.org/ns/prod/sa/ocr read ocr",
    ),
)
@click.option("--uid", type=click.IntRange(0, 2**32 - 2), help="Of the caller.")
@click.option(
    "--gid",
    type=click.IntRange(0, 2**32 - 2),
    help="Of the caller. Default: the user's own group; if there is no such user, the uid.",
)
@click.option("--listener", help="That it connects to. Default: default.")
@click.option("--spiffe", metavar="ID", help="Of a caller over TLS, instead of uid and the others.")
@click.option("--file", type=click.Path(path_type=Path), help="The policy; not the daemon's own.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="SEALCARD_CONFIG",
    show_envvar=True,
    help="Settings that name the policy. Default: as for `sealcar serve`.",
)
@click.argument("right", type=click.Choice([right.value for right in Right]))
@click.argument("address")
def explain(  # noqa: PLR0913  (options of a command)
    *,
    uid: int | None,
    gid: int | None,
    listener: str | None,
    spiffe: str | None,
    file: Path | None,
    config: Path | None,
    right: str,
    address: str,
) -> int:
    """Say whether a caller has RIGHT on ADDRESS, and which grant decides.

    RIGHT is list, read, write, import, verify, export, export-plain, manage or reseal. ADDRESS is
    NAME or NAME/COMPONENT; with NAME@VERSION, pins are shown for that version only. Exit code 0:
    yes; 1: no.
    """
    wanted = Address.parse(address)
    if wanted.variant:
        raise InvalidRequestError("a policy knows components, and nothing finer")
    path = file or _of_settings(config)
    rules = Policy.load(path)
    principal = _caller(uid, gid, listener, spiffe)
    asked = Right(right)
    place = rules.deciding(principal, asked, wanted.name, wanted.component)
    question = f"{principal}, right {right!r} on {wanted}"
    if place is not None:
        click.echo(f"yes: {question}\ndecided by grant {place} of {path}:")
        click.echo(f"  {_in_short(rules.grants[place - 1])}")
        for line in policy_bounds.also(rules, asked, wanted):
            click.echo(line)
        return 0
    click.echo(f"no: {question}\nno grant of {path} gives it, and what no grant gives is refused")
    for line in _why_not(rules, principal, asked, wanted):
        click.echo(f"  {line}")
    seen = rules.allows(principal, Right.LIST, wanted.name, wanted.component)
    told = "is told that the right is missing" if seen else "can't tell it from an unknown package"
    click.echo(f"the caller {told}")
    return NO


def _caller(
    uid: int | None, gid: int | None, listener: str | None, spiffe: str | None
) -> Principal:
    if spiffe is not None:
        if (uid, gid, listener) != (None, None, None):
            raise click.UsageError("--spiffe is a caller of its own, without the other options")
        if not is_id(spiffe):
            raise click.UsageError(f"--spiffe takes a SPIFFE ID, which {shown(spiffe)} is not")
        return Principal.remote(spiffe)
    if uid is None:
        raise click.UsageError("give --uid, or --spiffe for a caller over TLS")
    return Principal(listener or "default", uid, _group_of(uid) if gid is None else gid)


def _of_settings(config: Path | None) -> Path:
    return settings_reading.read(config or default_config(), os.environ, ()).policy.file


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _why_not(rules: Policy, principal: Principal, right: Right, wanted: Address) -> Iterator[str]:
    if principal.uid == overflow_id("uid"):
        yield f"uid {principal.uid} is everyone whom the kernel can't name: no grant matches it"
        return
    about = [(at, one) for at, one in enumerate(rules.grants, 1) if one.is_about(principal)]
    if not about:
        yield "no grant is about this caller"
    for place, grant in about:
        if not grant.matches_package(wanted.name):
            yield f"grant {place} is about this caller, but not about this package"
        elif not grant.gives(right):
            yield f"grant {place} is about caller and package, but doesn't give {right.value!r}"
        else:
            part = "this component" if wanted.component else "the whole package"
            yield f"grant {place} gives it for some components, but not for {part}"


def _in_short(grant: Grant) -> str:
    """Write a grant as its file has it, on one line."""
    values = {
        "uid": grant.uid,
        "gid": grant.gid,
        "listener": grant.listener,
        "spiffe": grant.spiffe,
        "packages": list(grant.packages),
        "components": None if grant.components is None else list(grant.components),
        "rights": sorted(right.value for right in grant.rights),
    }
    return ", ".join(
        f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None
    )
