"""What `sealcar top` draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sealcar.cli import report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

_MOST_CLIENTS: Final = 20


def view(seen: Mapping[str, Any]) -> Group:
    """Return a screen of what was seen."""
    boxes = [
        _box("transfers", _transfers(seen)),
        _box("memory", _memory(seen)),
        _box("keys", _keys(seen)),
        _box("refused", _refused(seen)),
        _box("where time goes", _phases(seen)),
    ]
    return Group(_head(seen), Columns(boxes, equal=True), _clients(seen["clients"]))


def _head(seen: Mapping[str, Any]) -> Text:
    state = ("serving", "bold green")
    if seen["draining"]:
        state = ("draining", "bold yellow")
    if seen["locked"]:
        state = ("LOCKED", "bold red")
    told = f"  {seen['sessions']} clients, {seen['connections']} connections"
    return Text.assemble(("sealcar ", "bold"), state, told)


def _box(title: str, inside: RenderableType) -> Panel:
    return Panel(inside, title=title, title_align="left", border_style="blue", width=38)


def _lines(pairs: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for name, value in pairs.items():
        table.add_row(Text(report.plain(name)), Text(report.plain(value)))
    return table


def _transfers(seen: Mapping[str, Any]) -> Table:
    rate = seen["per_second"]["payload_bytes"]
    return _lines(
        {
            "under way": str(seen["transfers"]),
            "read": f"{report.size(int(rate.get('read', 0)))}/s",
            "written": f"{report.size(int(rate.get('write', 0)))}/s",
            "pieces in the queue": f"{seen['work_queued']} for {seen['workers']} workers",
        }
    )


def _memory(seen: Mapping[str, Any]) -> Group:
    used, limit = seen["memory_bytes"], seen["memory_limit_bytes"]
    return Group(
        ProgressBar(total=max(limit, 1), completed=used, width=34),
        _lines(
            {
                "in use": f"{report.size(used)} of {report.size(limit)}",
                "rings, segments": f"{seen['rings']}, {seen['segments']}",
                "waiting": str(seen["memory_waiting"]),
            }
        ),
    )


def _keys(seen: Mapping[str, Any]) -> Table:
    cache = seen["key_cache"]
    asked = cache.get("hit", 0) + cache.get("miss", 0)
    hits = f"{cache.get('hit', 0) / asked:.0%}" if asked else "-"
    up = {alias: "up" if value else "DOWN" for alias, value in seen["key_provider_up"].items()}
    return _lines({"held": str(seen["key_cache_keys"]), "found in the cache": hits, **up})


def _refused(seen: Mapping[str, Any]) -> Table:
    counts = {**seen["denials"], **seen["refusals"]}
    some = {name: f"{count:.0f}" for name, count in counts.items() if count}
    return _lines(some or {"nobody": ""})


def _phases(seen: Mapping[str, Any]) -> Table:
    spent = seen["per_second"]["phase_seconds"]
    most = sorted(spent.items(), key=lambda item: item[1], reverse=True)[:5]
    some = {name: f"{value:.0%}" for name, value in most if value > 0}
    return _lines(some or {"idle": ""})


def _clients(clients: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("client", "listener", "uid", "pid", "connections", ""):
        table.add_column(title, justify="right" if title in ("uid", "pid") else "left")
    for one in clients[:_MOST_CLIENTS]:
        cells = (one["session"], one["listener"], one["uid"], one["pid"] or "?", one["connections"])
        has = "was handed plaintext" if one["received"] else ""
        table.add_row(*(Text(report.plain(str(cell))) for cell in (*cells, has)))
    if len(clients) > _MOST_CLIENTS:
        table.add_row(f"and {len(clients) - _MOST_CLIENTS} more")
    return table
