"""The command that says what of a machine makes sealcar weaker, and what to do about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sealcar.cli import report
from sealcar.cli.listener import prints_json, waits
from sealcar.doctor import asking, running, serving, storing
from sealcar.doctor.findings import State, worst

if TYPE_CHECKING:
    from sealcar.doctor.findings import Finding

_PROBLEM: Final = 1
_DIRECTORY: Final = click.Path(path_type=Path)


@click.command(
    short_help="Say what of this machine weakens sealcar.",
    epilog=report.examples(
        "sealcar doctor", "sealcar doctor --admin /run/sealcar/admin --store /var/lib/sealcar/store"
    ),
)
@click.option(
    "--socket",
    type=_DIRECTORY,
    envvar="SEALCAR_SOCKET",
    show_envvar=True,
    help="Directory with the daemon's sockets; without it a daemon that isn't there is no problem"
    " unless the default directory is.",
)
@click.option(
    "--admin",
    type=_DIRECTORY,
    envvar="SEALCAR_ADMIN",
    show_envvar=True,
    help="Directory with the daemon's admin socket: what it gave up, its policy and audit log.",
)
@click.option(
    "--store",
    type=_DIRECTORY,
    help="Directory of a store: how it keeps payloads that didn't change. Tried with two files"
    " that are removed at once.",
)
@partial(waits, seconds=3.0, what="the daemon, and for each of its answers")
@prints_json
def doctor(
    *, socket: Path | None, admin: Path | None, store: Path | None, timeout: float, as_json: bool
) -> None:
    """Check this machine, its daemon if it can be reached, and ONNX Runtime if it is installed.

    Each finding is ok, weaker (it works, but protects less or takes longer), a problem, or unknown
    (it can't be seen from here), with what to do. No key is read, and a daemon isn't needed. Limits
    are those of this process: call it as, and from where, daemon or models are started.

    Exit code 1 if there is a problem; weaker and unknown are none.
    """
    found = [*asking.this_machine(), *serving.listener(socket, timeout)]
    if admin is not None:
        found += serving.inside(admin, timeout)
    if store is not None:
        found += storing.store(store)
    found += running.this_runtime()
    state = worst(found)
    if as_json:
        report.emit({"state": state, "findings": [asdict(each) for each in found]})
    else:
        _show(found)
    if state is State.PROBLEM:
        click.get_current_context().exit(_PROBLEM)


def _show(found: list[Finding]) -> None:
    width = max(len(each.check) for each in found)
    for each in found:
        click.echo(report.plain(f"{each.state:<8} {each.check:<{width}}  {each.text}"))
        if each.remedy:
            click.echo(report.plain(f"{'':<8} {'':<{width}}  remedy: {each.remedy}"))
    counts = Counter(each.state for each in found)
    click.echo(", ".join(f"{counts[state]} {state}" for state in reversed(State)))
