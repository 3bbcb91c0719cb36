"""A bar chart as SVG, without any library: text that a reader's light or dark scheme colours.

Bars of a panel are ratios to one reference, which is a line at 1. Values are written beside the
bars, so that nothing depends on colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OURS: Final = "ours"
OTHER: Final = "other"
PLAIN: Final = "plain"
_WIDTH: Final = 860
_LABELS: Final = 330
_BARS: Final = 430
_ROW: Final = 24
_BAR: Final = 15
_TITLE: Final = 34
_GAP: Final = 22
_MARGIN: Final = 16
_VALUE: Final = 28  # of a value's text
# colours that differ for those who don't see all, and are dark enough on white and light on black
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.note { font-size: 12px; fill: #59636e; }
.axis { stroke: #59636e; stroke-dasharray: 3 3; }
.ours { fill: #0969da; } .other { fill: #9a6700; } .plain { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .note { fill: #9198a1; } .axis { stroke: #9198a1; }
.ours { fill: #4493f8; } .other { fill: #d29922; } .plain { fill: #656c76; }
}
"""


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        label: what it is.
        value: as a ratio to the panel's reference.
        kind: "ours", "other" or "plain": its colour.
    """

    label: str
    value: float
    kind: str


@dataclass(frozen=True)
class Panel:
    """Bars that are compared.

    Attributes:
        title: what is compared, and with what: that is 1.
        bars: from top to bottom.
    """

    title: str
    bars: tuple[Bar, ...]


def svg(title: str, panels: Sequence[Panel], notes: Sequence[str]) -> str:
    """Return a chart.

    Args:
        title: for those who hear it read.
        panels: one below the other; each has a scale of its own.
        notes: lines below them.
    """
    body: list[str] = []
    top = _MARGIN
    for panel in panels:
        body += _panel(panel, top)
        top += _TITLE + _ROW * len(panel.bars) + _GAP
    for note in notes:
        body.append(_text(_MARGIN, top, note, "note"))
        top += 18
    height = top + _MARGIN - 8
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            *body,
            "</svg>",
            "",
        )
    )


def _panel(panel: Panel, top: int) -> Iterator[str]:
    most = max(1.0, *(bar.value for bar in panel.bars))
    yield _text(_MARGIN, top + 12, panel.title, "title")
    top += _TITLE - 8
    line = _LABELS + _BARS / most
    for row, bar in enumerate(panel.bars):
        at = top + row * _ROW
        length = max(1.0, bar.value / most * _BARS)
        yield _text(_LABELS - 8, at + 12, bar.label, "", end=True)
        yield (
            f'<rect class="{bar.kind}" x="{_LABELS}" y="{at}" width="{length:.1f}" '
            f'height="{_BAR}" rx="2"/>'
        )
        end = _LABELS + length + 6
        # the line would cross it
        end = line + 6 if end - 6 < line < end + _VALUE else end
        yield _text(round(end), at + 12, f"{bar.value:.2f}", "")
    bottom = top + len(panel.bars) * _ROW - 6
    yield f'<line class="axis" x1="{line:.1f}" x2="{line:.1f}" y1="{top - 4}" y2="{bottom}"/>'


def _text(x: int, y: int, words: str, kind: str, *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{named}{anchor}>{escape(words)}</text>'
