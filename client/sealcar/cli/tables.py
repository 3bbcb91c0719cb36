"""Tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sealcar.cli import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# beyond a terminal nothing is cut: `sealcar ls | grep` sees whole names
_UNCUT: Final = 4000
_NUMBERS: Final = ("generation", "gen.", "comp.", "variants", "payloads", "assets", "size")


def show(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, numbers to the right. Cells are shown as they are, markup and all."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNCUT
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        right = title in _NUMBERS
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(report.plain(str(cell))) for cell in row))
    console.print(table)
