"""What `sealcar bench` found, as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sealcar.benching.figures import ROLES
from sealcar.benching.jobs import MOMENTS, READY
from sealcar.cli import report, tables

if TYPE_CHECKING:
    from sealcar.benching.figures import Figures
    from sealcar.benching.trial import Outcome

_TITLES = ("way", "parsed", "beside it", "ready", "(least to most)", "answered", "ready ÷ plain")


def show(outcome: Outcome) -> None:
    """Print times in milliseconds, memory, and what there is to say about them."""
    subject = outcome.subject
    click.echo(f"{report.plain(subject.model.name)}: {report.size(subject.size)}")
    for cache in sorted({each.cache for each in outcome.figures}, reverse=True):
        mine = [each for each in outcome.figures if each.cache == cache]
        click.echo(f"\nmilliseconds, medians; page cache {cache}")
        tables.show(_TITLES, [_row(each, outcome.reference(each)) for each in mine])
    click.echo("\nmost memory while loading, over what the process had before")
    measured = [each for each in outcome.figures if each.watched and each.cache == "warm"]
    tables.show(
        ("way", "process", "its alone", "with its part of what is shared"),
        [row for each in measured for row in _memory(each)],
    )
    for line in _remarks(outcome):
        click.echo(report.plain(line))


def _row(each: Figures, reference: Figures) -> list[str]:
    if not each.samples:
        return [each.way, f"not measured: {each.failed}", *[""] * (len(_TITLES) - 2)]
    spreads = [each.spread(moment) for moment in MOMENTS]
    cells = [f"{spread.median * 1e3:.1f}" if spread else "-" for spread in spreads]
    ready, ratio = each.spread(READY), each.ratio(READY, reference)
    between = f"{ready.least * 1e3:.1f} to {ready.most * 1e3:.1f}" if ready else "-"
    return [each.way, *cells[:3], between, cells[3], f"{ratio:.2f}" if ratio else "-"]


def _memory(each: Figures) -> list[list[str]]:
    rows = []
    for role, title in ROLES.items():
        if each.watched is None or role not in each.watched.memory:
            continue
        idle, most = each.watched.memory[role]
        private = report.size(max(0, most.private - idle.private))
        shared = report.size(max(0, most.proportional - idle.proportional))
        rows.append([each.way, title, private, shared])
    return rows


def _notes(outcome: Outcome) -> list[str]:
    """Say of each note on how a moment was measured which ways it is about."""
    ways: dict[str, list[str]] = {}
    for each in outcome.figures:
        for moment in MOMENTS:
            note = each.unseen(moment)
            if note and each.cache == "warm":
                ways.setdefault(f"{moment}: {note}", []).append(each.way)
    return [f"{note} ({'; '.join(whose)})" for note, whose in ways.items()]


def _remarks(outcome: Outcome) -> list[str]:
    found = ["", f"daemon: {outcome.daemon}"]
    found += _notes(outcome)
    for each in outcome.figures:
        if each.cache == "cold" and each.samples:
            stayed = max(one.stayed for one in each.samples)
            found += [f"{each.way}: {stayed:.0%} of a file stayed in the page cache"] * (stayed > 0)
    disturbed = sum(each.disturbed for each in outcome.figures)
    if disturbed:
        found.append(f"{report.many(disturbed, 'load')} beside others who used the machine")
    found += [f"{way} ANSWERED SOMETHING ELSE than the plain model" for way in outcome.differ()]
    return found
