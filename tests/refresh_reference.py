"""Write into docs/ what the code says of settings and metrics.

    python tests/refresh_reference.py

Between a line `<!-- made from the code: NAME -->` and the next `<!-- end -->`, the pages have what
is made here; all else in them is written by hand. A test compares.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics import MetricWrapperBase

from sealcar_server import settings
from sealcar_server.access.audit.chain import Position
from sealcar_server.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS: Final = Path(__file__).parents[1] / "docs"
MADE: Final = re.compile(
    r"(?<=^<!-- made from the code: )(\w+)( -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL
)
_TYPES: Final = {"counter": "_total", "info": "_info"}


def every_setting() -> str:
    """Return a table for each section."""
    lines = []
    for section, table in {**settings.SECTIONS, **settings.NAMED}.items():
        place, _, purpose = (table.__doc__ or "").partition(": ")
        lines += [f"## {section}", "", f"`{place}`: {_cell(purpose)}", ""]
        lines += _table("setting", "what it is", "allowed", "default")
        for key, info in settings.keys_of(section).items():
            name = f"{place.strip('[]')}.{key}"
            lines.append(_row(f"`{name}`", info.purpose, info.kind.allowed, _default(info)))
        lines.append("")
    return "\n".join(lines)


def _default(info: settings.KeyInfo) -> str:
    if info.required:
        return "required"
    if info.default is None or info.default == ():
        return "off" if '"off"' in info.kind.allowed else "none"
    if isinstance(info.default, bool):
        return str(info.default).lower()
    text = info.kind.written(info.default)
    return text if re.fullmatch(r"0|0\.\d+|[1-9]\d*(\.\d+)?", text) else f'"{text}"'


def every_metric() -> str:
    """Return the table of all metrics of ours."""
    lines = _table("metric", "type", "labels", "what it is")
    lines += [_row(*cells) for cells in _metrics()]
    return "\n".join(lines) + "\n"


def _metrics() -> Iterator[tuple[str, str, str, str]]:
    figures = Metrics()
    figures.started("0", "uid", 0)
    figures.audited(Position(0, ""), writable=True)
    figures.certificate(datetime.now(UTC), broken=False)
    # what is about the process comes from the library, and is described there
    ours = [
        one for one in figures.registry._collector_to_names if isinstance(one, MetricWrapperBase)
    ]
    for collector in ours:
        for metric in collector.describe():
            labels = list(collector._labelnames)
            for family in collector.collect() if metric.type == "info" else ():
                labels += [name for sample in family.samples for name in sample.labels]
            name = f"`{metric.name}{_TYPES.get(metric.type, '')}`"
            yield name, metric.type, ", ".join(labels), metric.documentation


PARTS: Final[dict[str, Callable[[], str]]] = {"settings": every_setting, "metrics": every_metric}


def made(text: str) -> str:
    """Return a page with what the code says in it now."""
    return MADE.sub(lambda found: f"{found[1]}{found[2]}\n{PARTS[found[1]]()}\n", text)


def _table(*names: str) -> list[str]:
    return [_row(*names), "|---" * len(names) + "|"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |".replace("|  |", "| |")


def _cell(text: str) -> str:
    text = text.removesuffix(".").replace("|", "\\|")
    # a name of a setting, or of a section, stands as code
    return re.sub(r"(?<![`\w.])(\[\[?\w+\]\]?|\w+\.\w+_\w+)(?![`\w])", r"`\1`", text)


def main() -> int:
    for page in DOCS.glob("*.md"):
        old = page.read_text()
        if (new := made(old)) != old:
            page.write_text(new)
            sys.stdout.write(f"{page.name}: written anew\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
