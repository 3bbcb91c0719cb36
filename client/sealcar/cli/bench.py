"""The command that measures what sealing costs a user's own model."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealcar.cli import report
from sealcar.cli.ending import terminable
from sealcar.cli.listener import prints_json
from sealcar.cli.progress import bytes_moving, loads_moving
from sealcar.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.benching.stage import Daemon
    from sealcar.benching.subjects import Subject

_DIRECTORY = click.Path(path_type=Path)


def _pairs(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Take KEY=VALUE apart."""
    found = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!a} isn't KEY=VALUE", ctx, parameter)
        found[key] = value
    return found


def _dims(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int]:
    """Take NAME=NUMBER apart."""
    found = _pairs(ctx, parameter, values)
    wrong = next((value for value in found.values() if not value.isdecimal()), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!a} is no whole number", ctx, parameter)
    return {key: int(value) for key, value in found.items()}


@click.command(
    short_help="Measure what sealing costs a model of yours.",
    epilog=report.examples(
        "sealcar bench detector.onnx",
        "sealcar bench detector.onnx --rounds 9 --cold --dim batch=4",
        "sealcar bench ./ocr-package --component det --variant qnn --ep onnxruntime_qnn"
        " --ep-option backend_type=htp",
    ),
)
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--component", help="Of a package that has several.")
@click.option("--variant", help="Of a component that has several.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Loads of each way that count. Up to twice as many are made to find quiet ones.",
)
@click.option(
    "--cold", is_flag=True, help="Also with nothing of the model in the page cache, each time."
)
@click.option(
    "--quick", is_flag=True, help="One load of each way, to see that it works: no figures to trust."
)
@click.option(
    "--ep",
    "plugin",
    default="",
    metavar="MODULE",
    help="Python module of a plugin execution provider, such as onnxruntime_qnn; else the CPU's.",
)
@click.option(
    "--ep-option",
    "plugin_options",
    multiple=True,
    callback=_pairs,
    metavar="KEY=VALUE",
    help="An option of that provider; may be repeated.",
)
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    help="Within an operator; 0, the default: ONNX Runtime's choice.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    callback=_dims,
    metavar="NAME=NUMBER",
    help="A dimension of inputs that the model only names; else 1. May be repeated.",
)
@click.option(
    "--input",
    "feed",
    type=click.Path(exists=True, dir_okay=False),
    help="An .npz with the inputs by name; else random numbers, or zeros where they are integers.",
)
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the sealed copy lies meanwhile: on the same disk as MODEL, for --cold.",
)
@click.option(
    "--package",
    default="",
    metavar="NAME",
    help="Without [server]: what MODEL was imported as; by default the file's name.",
)
@click.option(
    "--socket",
    type=_DIRECTORY,
    envvar="SEALCAR_SOCKET",
    show_envvar=True,
    help="Without [server]: directory with the sockets of the daemon that runs.",
)
@prints_json
def bench(  # noqa: PLR0913  (one parameter an option)
    *,
    model: Path,
    component: str | None,
    variant: str | None,
    rounds: int,
    cold: bool,
    quick: bool,
    plugin: str,
    plugin_options: dict[str, str],
    threads: int,
    dims: dict[str, int],
    feed: str | None,
    directory: Path | None,
    package: str,
    socket: Path | None,
    as_json: bool,
) -> None:
    """Load MODEL again and again, plain and sealed, and say how long each way takes.

    MODEL is an .onnx with what belongs to it, an .ort, or the directory of a plain package. Every
    load is a process of its own, and the ways take turns. Each is timed until the model's protobuf
    was parsed, what lies beside it was in memory and touched, the session was ready, and had
    answered once.

    A daemon with a fresh key and a store is made for it and is gone afterwards; where [server]
    isn't installed, the daemon that runs is used, if it has the model. Nothing of MODEL is written
    in plain, but for files in memory (/dev/shm) that one of the ways is about.
    """
    from sealcar.benching import rounds as taking  # noqa: PLC0415  (loads the transport)
    from sealcar.benching import subjects, trial  # noqa: PLC0415  (the same)

    subject = subjects.find(model, component, variant)
    if subject.compiled and not plugin:
        raise InvalidRequestError(
            "the model was compiled for an execution provider: name the module of its plugin with"
            " --ep, such as onnxruntime_qnn"
        )
    inputs = str(Path(feed).absolute()) if feed else ""
    wish = trial.Wish(plugin, plugin_options, threads, dims, inputs)
    with terminable(), _daemon(subject, directory, (package, socket), quiet=as_json) as daemon:
        if cold and daemon.store is None:
            raise InvalidRequestError(
                "--cold needs a daemon of its own, whose files this user may drop from the page"
                " cache; remedy: pip install 'sealcar[server]'"
            )
        found = trial.ways(subject, daemon, wish)
        with loads_moving(quiet=as_json) as watch:
            outcome = trial.run(subject, daemon, found, taking.Plan(rounds, cold, quick), watch)
    if as_json:
        report.emit(outcome.as_json())
        return
    from sealcar.cli import bench_view  # noqa: PLC0415  (the same)

    bench_view.show(outcome)


@contextmanager
def _daemon(
    subject: Subject, directory: Path | None, reached: tuple[str, Path | None], *, quiet: bool
) -> Iterator[Daemon]:
    from sealcar.benching import stage  # noqa: PLC0415  (loads the transport)

    if stage.server_installed():
        with (
            bytes_moving("sealing a copy", quiet=quiet) as progress,
            stage.throwaway(subject, directory, progress) as daemon,
        ):
            yield daemon
        return
    package, socket = reached
    with stage.running(subject, (package, "", ""), socket) as daemon:
        yield daemon
