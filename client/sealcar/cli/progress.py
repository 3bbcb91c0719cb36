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
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sealcar.cli import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar import modelpackage
    from sealcar.catalogue.values import Progress as Step
    from sealcar.catalogue.values import Watcher
    from sealcar.custody import RewrapStep


@contextmanager
def bytes_moving(what: str, *, quiet: bool) -> Iterator[Watcher]:
    """Show how many bytes are done. Draws only on a terminal; yields what to call at each step."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with _bar(*columns, quiet=quiet) as bar:
        task = bar.add_task(report.plain(what), total=None, at="")

        def show(step: Step) -> None:
            at = report.plain(step.payload)
            bar.update(task, completed=step.done, total=step.total or None, at=at)

        yield show


@contextmanager
def packages_moving(what: str, *, quiet: bool) -> Iterator[Callable[[RewrapStep], None]]:
    """Show how many packages are done. Draws only on a terminal; yields what to call."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _bar(*columns, quiet=quiet) as bar:
        task = bar.add_task(report.plain(what), total=None, at="")

        def show(step: RewrapStep) -> None:
            bar.update(task, completed=step.done, total=step.total, at=report.plain(step.package))

        yield show


@contextmanager
def loads_moving(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show how many loads are done. Draws only on a terminal; yields what to call at each."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _bar(*columns, quiet=quiet) as bar:
        task = bar.add_task("loading", total=None, at="")

        def show(way: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, at=way)

        yield show


@contextmanager
def hashing(what: str) -> Iterator[modelpackage.Progress]:
    """Show how many bytes are hashed. Draws only on a terminal; yields what to call."""
    with _bar(DownloadColumn(), TransferSpeedColumn(), quiet=False) as bar:
        task = bar.add_task(report.plain(what), total=None, at="")

        def show(files: int, size: int) -> None:
            del files
            bar.update(task, completed=size)

        yield show


def _bar(*columns: ProgressColumn, quiet: bool) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        *columns,
        TextColumn("{task.fields[at]}", markup=False),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
