"""The command that shows everything at work."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from sealcar.cli import report, tables
from sealcar.cli.ending import terminable
from sealcar.cli.listener import prints_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.demo.outcome import Outcome


@click.command(
    short_help="Show everything at work, with a real model.",
    epilog=report.examples("sealcar demo", "sealcar demo --ep openvino --json"),
)
@click.option(
    "--ep",
    type=click.Choice(["qnn", "openvino"]),
    help="Plugin execution provider; by default the first of these that is installed.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Do everything in this new directory and keep it, store and key included.",
)
@prints_json
@click.pass_context
def demo(ctx: click.Context, *, ep: str | None, keep: Path | None, as_json: bool) -> None:
    """Seal, compile, load and run a real model, with a daemon of its own, in about a minute.

    The model is Magika's, which tells file types apart. The daemon runs as a child process with a
    fresh key and a store in a private directory. One application compiles the model with a real
    plugin execution provider; another loads the result and looks at a dozen real files. The answers
    must equal the plain model's, and nothing plain may lie in the store: then the exit code is 0,
    else 1. Nothing keeps running.
    """
    from sealcar.demo import missing, plugins, stage  # noqa: PLC0415  (loads the transport)

    missing.check()
    from sealcar.demo import running  # noqa: PLC0415  (needs what was just checked)

    chosen = plugins.choose(ep)
    narrator = _Narrator(quiet=as_json)
    with terminable(), stage.place(keep) as directory, narrator.watching():
        outcome = running.run(chosen, directory, narrator)
    if as_json:
        report.emit(outcome.as_json())
    else:
        _show(outcome, kept=keep is not None)
    ctx.exit(0 if outcome.equal and not outcome.plaintext_hits else 1)


class _Narrator:
    """Prints a line a step, and a bar below where there is a terminal to draw on."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, visible=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self._bar:
            yield

    def say(self, text: str) -> None:
        self._bar.reset(self._task, description="", total=None, visible=True)
        self._console.print(report.plain(text), markup=False, soft_wrap=True)

    def step(self, text: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=text, completed=done, total=total)


def _show(outcome: Outcome, *, kept: bool) -> None:
    click.echo()
    tables.show(
        ["file", "sealed, compiled", "score", "plain", "score", ""],
        [
            [
                *(each.file, each.label, f"{each.score:.4f}"),
                *(each.plain_label, f"{each.plain_score:.4f}", "=" if each.equal else "DIFFERENT"),
            ]
            for each in outcome.predictions
        ],
    )
    count = len(outcome.predictions)
    verdict = "equal the plain model's" if outcome.equal else "DIFFER from the plain model's"
    gone = "" if kept else " and is gone now"
    speed = outcome.speed
    facts = {
        "Answers": f"all {count} labels compared: they {verdict};"
        f" scores differ by {outcome.difference:.1e} at most",
        "Runtime": f"ONNX Runtime {outcome.ort_version}, {outcome.ep},"
        f" callbacks through the {outcome.callback_api} API",
        "At rest": f"ciphertext lay in {outcome.store}{gone}",
        "Search": f"{outcome.plaintext_hits} runs of 64 bytes of plaintext found"
        f" in {report.size(outcome.searched_bytes)}",
        "Speed": f"blob of {report.size(speed.size)}: read {speed.read:.2f} GB/s,"
        f" write {speed.write:.2f} GB/s",
    }
    for title, text in facts.items():
        click.echo(f"{title:<10} {text}")
