"""Progress bars on standard error, for work that takes more than a moment."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sealcar.cli import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.catalogue.values import Progress as Step
    from sealcar.catalogue.values import Watcher
    from sealcar.custody import RewrapStep


@contextmanager
def bytes_moving(what: str, *, quiet: bool) -> Iterator[Watcher]:
    """Show how many bytes are done. Draws only on a terminal; yields what to call at each step."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[payload]}", markup=False),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task(report.plain(what), total=None, payload="")

        def show(step: Step) -> None:
            name = report.plain(step.payload)
            bar.update(task, completed=step.done, total=step.total or None, payload=name)

        yield show


@contextmanager
def packages_moving(what: str, *, quiet: bool) -> Iterator[Callable[[RewrapStep], None]]:
    """Show how many packages are done. Draws only on a terminal; yields what to call."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[package]}", markup=False),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task(report.plain(what), total=None, package="")

        def show(step: RewrapStep) -> None:
            package = report.plain(step.package)
            bar.update(task, completed=step.done, total=step.total, package=package)

        yield show
