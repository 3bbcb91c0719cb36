"""The command that says how the daemon is."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sealcar.cli import probing, report
from sealcar.cli.listener import of_this_machine, prints_json
from sealcar.errors import UnavailableError

if TYPE_CHECKING:
    from sealcar.client import Client, DaemonState
    from sealcar.custody import KeysStatus
    from sealcar.oversight import HardeningStep, Oversight

ISOLATION: Final = {
    "uid": "uid: clients are other users than the daemon",
    "none": "NONE: a client may have the daemon's uid, and can then do what the daemon can",
}
SESSION: Final = {
    "pidfd": "pidfd: it ends with its process",
    "pidfd-shared": "pidfd-shared: it ends with its process (older kernel, weaker identity)",
    "connection": "connection: it ends with its last connection (process unknown)",
}


@click.command(
    short_help="Say how the daemon is.",
    epilog=report.examples(
        "sealcar status",
        "sealcar status --json --admin /run/sealcar/admin",
        "sealcar status --probe=ready --timeout 2",
    ),
)
@click.option(
    "--admin",
    type=click.Path(path_type=Path),
    envvar="SEALCAR_ADMIN",
    show_envvar=True,
    help="Directory with the daemon's admin socket; with it keys, policy and audit log are shown.",
)
@click.option(
    "--probe",
    type=click.Choice(["live", "ready"]),
    is_flag=False,
    flag_value="live",
    help="Print nothing, and end quickly; with `ready` a locked daemon is exit code 7.",
)
@prints_json
@of_this_machine
def status(
    socket: Path | None,
    timeout: float,
    *,
    admin: Path | None,
    probe: str | None,
    as_json: bool,
) -> None:
    """Say whether the daemon serves, how clients are isolated from it, and how its keys are.

    Exit code 0 while it serves, 4 while it doesn't: fit for a probe of liveness. One that an
    operator locked lives on, and says so; gRPC health reports it as NOT_SERVING. Operators
    who can open the admin socket also see every key-encryption key, asked for its health now, the
    policy in force, what the daemon gave up at its start and the last line of the audit log.
    """
    if probe is not None:
        probing.probe(socket, timeout, ready=probe == "ready")
        return
    import sealcar  # noqa: PLC0415  (loads the transport, which probes needn't)

    with sealcar.connect(socket, timeout=timeout) as client:
        _tell(client, admin, as_json=as_json)


def _tell(client: Client, admin: Path | None, *, as_json: bool) -> None:
    state = client.state()
    client.try_delivery()
    inside = None if admin is None else _inside(admin)
    if not state.serving:
        raise UnavailableError("the daemon is there but doesn't serve: it starts or drains")
    if as_json:
        value: dict[str, Any] = asdict(state)
        value |= {"delivery": client.delivery, "delivery_reason": client.delivery_reason}
        if inside is not None:
            value |= asdict(inside[0]) | asdict(inside[1])
        report.emit(value)
        return
    _show(state, client)
    if inside is not None:
        _show_oversight(inside[1])
        click.echo()
        show_keys(inside[0])


def _inside(directory: Path) -> tuple[KeysStatus, Oversight]:
    from sealcar.admin import Admin  # noqa: PLC0415  (loads gRPC)

    with Admin.at(directory) as socket:
        return socket.status(), socket.oversight()


def _show(state: DaemonState, client: Client) -> None:
    why = f": {client.delivery_reason}" if client.delivery_reason else ""
    memory = f"{report.size(state.memory)} of {report.size(state.memory_limit)}"
    serving = "LOCKED: nothing before `sealcar unlock`" if state.locked else "serving"
    for title, text in {
        "daemon": f"{serving}, release {state.release}",
        "up": timedelta(seconds=state.uptime),
        "isolation": ISOLATION.get(state.isolation, state.isolation),
        "session": SESSION.get(state.session, state.session),
        "sessions": state.sessions,
        "transfers": state.transfers,
        "memory": memory,
        "delivery": f"{client.delivery}{why}",
    }.items():
        click.echo(f"{title:<10} {report.plain(str(text))}")


def _show_oversight(seen: Oversight) -> None:
    broken = ", but its file can't be used now" if seen.policy.broken else ""
    click.echo(f"{'policy':<10} generation {seen.policy.generation} in force{broken}")
    _show_hardening(seen.hardening)
    if seen.store.bucket:
        failure = f"; CAN'T BE REACHED: {seen.store.failure}" if seen.store.failure else ""
        click.echo(f"{'store':<10} {report.plain(seen.store.bucket + failure)}")
    if seen.audit is None:
        click.echo(f"{'audit':<10} no log")
        return
    stuck = "" if seen.audit.writable else "; CAN'T BE WRITTEN"
    last = f"--sequence {seen.audit.sequence} --mac {seen.audit.mac}"
    click.echo(f"{'audit':<10} {last}{stuck}")


def _show_hardening(steps: tuple[HardeningStep, ...]) -> None:
    on = ", ".join(each.step for each in steps if each.state == "on")
    click.echo(f"{'hardening':<10} {report.plain(on) or 'NONE'}")
    for each in steps:
        if each.reason:
            told = f"{each.step} {each.state}: {each.reason}"
            click.echo(f"{'':<10} {report.plain(told)}")


def show_keys(keys: KeysStatus) -> None:
    """Print a table of key-encryption keys, or that the daemon is locked."""
    if keys.locked:
        click.echo("LOCKED: the daemon has no key before `sealcar unlock`")
        return
    from sealcar.cli import tables  # noqa: PLC0415  (loads rich, which probes needn't)

    tables.show(
        ["key", "provider", "version", "state", "package keys cached", "revoked"],
        [
            [
                each.alias,
                each.provider,
                each.version,
                "available" if each.available else each.problem,
                each.cached,
                ", ".join(each.revoked),
            ]
            for each in keys.keys
        ],
    )
