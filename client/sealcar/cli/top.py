"""The command that shows a daemon at work."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from sealcar.cli import report
from sealcar.cli.listener import prints_json
from sealcar.cli.operator import asks_the_admin_socket

if TYPE_CHECKING:
    from sealcar.admin import Admin
    from sealcar.oversight import Figures

_TOTALS: Final = {
    "payload_bytes": ("sealcar_payload_bytes_total", "direction"),
    "denials": ("sealcar_denials_total", "rule"),
    "refusals": ("sealcar_refusals_total", "reason"),
    "key_cache": ("sealcar_key_cache_total", "result"),
    "key_provider_up": ("sealcar_key_provider_up", "alias"),
    "phase_seconds": ("sealcar_phase_seconds_sum", "phase"),
}
_NOW: Final = (
    "sessions",
    "connections",
    "transfers",
    "rings",
    "segments",
    "memory_bytes",
    "memory_limit_bytes",
    "memory_waiting",
    "work_queued",
    "workers",
    "key_cache_keys",
    "locked",
    "draining",
)


@click.command(
    short_help="Show the daemon at work.",
    epilog=report.examples("sealcar top", "sealcar top --once --json"),
)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 60),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks, each of which is a line of the audit log.",
)
@click.option("--once", is_flag=True, help="Look twice, show what was between, and end.")
@prints_json
@asks_the_admin_socket
def top(admin: Admin, *, interval: float, once: bool, as_json: bool) -> None:
    """Show sessions, transfers, throughput, memory, keys and refusals, until Ctrl-C.

    It reads what /metrics has from the admin socket, whether or not metrics are served. Without a
    terminal, and with --json, it ends after one interval. Exit code 4 if no daemon answers.
    """
    before, then = admin.figures(), time.monotonic()
    if once or as_json or not sys.stdout.isatty():
        time.sleep(interval)
        now = admin.figures()
        seen = seen_between(before, now, time.monotonic() - then)
        if as_json:
            report.emit(seen)
        else:
            _print(seen)
        return
    _watch(admin, before, interval)


def seen_between(before: Figures, now: Figures, seconds: float) -> dict[str, Any]:
    """Return what a look shows; what only grows as of now, and by the second in between.

    Args:
        before: an earlier look.
        now: a later one.
        seconds: between them.
    """
    seen: dict[str, Any] = {name: int(now.sum(f"sealcar_{name}")) for name in _NOW}
    rates: dict[str, dict[str, float]] = {}
    for title, (name, label) in _TOTALS.items():
        totals, earlier = now.by(name, label), before.by(name, label)
        seen[title] = totals
        rates[title] = {
            key: max(0.0, value - earlier.get(key, 0.0)) / max(seconds, 1e-6)
            for key, value in totals.items()
        }
    seen["per_second"] = {
        title: rates[title] for title in ("payload_bytes", "denials", "refusals", "phase_seconds")
    }
    seen["clients"] = [asdict(one) for one in now.sessions]
    return seen


def _print(seen: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415  (loads rich, which --json needn't)

    from sealcar.cli.top_view import view  # noqa: PLC0415  (the same reason)

    Console(highlight=False).print(view(seen))


def _watch(admin: Admin, before: Figures, interval: float) -> None:
    from rich.live import Live  # noqa: PLC0415  (loads rich, which --json needn't)

    from sealcar.cli.top_view import view  # noqa: PLC0415  (the same reason)

    then = time.monotonic()
    try:
        with Live(view(seen_between(before, before, 1.0)), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                now, at = admin.figures(), time.monotonic()
                live.update(view(seen_between(before, now, at - then)), refresh=True)
                before, then = now, at
    except KeyboardInterrupt:
        return  # the way to end it
