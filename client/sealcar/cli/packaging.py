"""The commands of `sealcar package`: model packages in plain directories, without any daemon."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sealcar import errors, modelpackage, names
from sealcar.cli import package_views, report
from sealcar.cli.listener import prints_json
from sealcar.cli.progress import hashing

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY: Final = click.Path(path_type=Path)
# what a person does about it, by kind of error
_KINDS: Final[tuple[tuple[type[modelpackage.PackageError], type[errors.SealcarError]], ...]] = (
    (modelpackage.MissingError, errors.NotFoundError),
    (modelpackage.AssetMismatchError, errors.DamagedError),
    (modelpackage.StateError, errors.WrongStateError),
    (modelpackage.FileAccessError, errors.StorageError),
    (modelpackage.PackageError, errors.InvalidPackageError),
)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what is wrong with a package into an error with an exit code."""
    try:
        yield
    except modelpackage.PackageError as error:
        kind = next(ours for theirs, ours in _KINDS if isinstance(error, theirs))
        raise kind(str(error)) from error
    except OSError as error:  # what is shown besides
        raise errors.StorageError(str(error)) from error
    except RecursionError as error:
        raise errors.InvalidPackageError("a directory is nested too deep") from error


@click.group(
    short_help="Make and check model packages in plain directories.",
    epilog=report.examples(
        "sealcar package new ocr --name ocr",
        "sealcar package add ocr det/cpu det.onnx --ep CPUExecutionProvider",
        "sealcar package tree ocr && sealcar import ocr",
    ),
)
def package() -> None:
    """Work on ONNX Runtime model packages in plain directories. Needs no daemon, seals nothing."""


@package.command(
    short_help="Make an empty package.",
    epilog=report.examples("sealcar package new ocr --name ocr --version 1.0"),
)
@click.argument("directory", type=_DIRECTORY)
@click.option("--name", help="Name of the package.")
@click.option("--version", help="Version of the package.")
@click.option("--description", help="What it is, in a sentence.")
def new(directory: Path, *, name: str | None, version: str | None, description: str | None) -> None:
    """Make a package without components in DIRECTORY, which is new or empty."""
    with _told(), modelpackage.create(directory) as editor:
        editor.set_metadata(name=name, version=version, description=description)
    click.echo(f"made {report.plain(str(directory))}")


@package.command(
    short_help="Add a variant, or shared assets.",
    epilog=report.examples(
        "sealcar package add ocr det/cpu det.onnx det.data --ep CPUExecutionProvider",
        "sealcar package add ocr det/npu det.onnx --device npu --asset words",
    ),
)
@click.argument("directory", type=_DIRECTORY)
@click.argument("address", metavar="COMPONENT/VARIANT")
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--ep", help="Execution provider that the variant is for.")
@click.option("--device", type=click.Choice(["cpu", "gpu", "npu"]), help="Kind of device.")
@click.option("--compatibility", help="What the execution provider says about its blob.")
@click.option("--model", help="The model's file; by default the only one with .onnx or .ort.")
@click.option(
    "--asset", "assets", multiple=True, type=_DIRECTORY, help="Directory to add as a shared asset."
)
def add(  # noqa: PLR0913  (one parameter an option)
    directory: Path,
    *,
    address: str,
    sources: tuple[Path, ...],
    ep: str | None,
    device: str | None,
    compatibility: str | None,
    model: str | None,
    assets: tuple[Path, ...],
) -> None:
    """Copy SOURCES, files or directories, into a new variant of the package in DIRECTORY."""
    component, _, variant = address.partition("/")
    names.part(component, "component name")
    names.part(variant, "variant name")
    body = {"ep": ep, "device": device, "compatibility_string": compatibility}
    with _told(), modelpackage.edit(directory) as editor:
        place = editor.package.root / component / variant
        with _copied(sources, place) as files:
            made: dict[str, Any] = {key: value for key, value in body.items() if value is not None}
            made["variant_directory"] = _relative(editor.package, component, place)
            chosen = model or _only_model(files)
            if chosen:
                made["executor_info"] = {"ort": {"model_file": chosen}}
            if component not in editor.package.components:
                editor.set_component(component, {"variants": {}})
            editor.set_variant(component, variant, made)
            for asset in assets:
                with hashing(f"hashing {asset}") as progress:
                    click.echo(editor.add_shared_asset(asset, progress=progress))
            editor.commit()
    click.echo(f"added {report.plain(address)}: {len(files)} files")


@contextmanager
def _copied(sources: tuple[Path, ...], place: Path) -> Iterator[list[str]]:
    """Copy files to a new directory, which goes again if the package doesn't come to use it."""
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        raise errors.AlreadyExistsError(f"{place} is there already") from None
    except OSError as error:
        raise errors.StorageError(f"{place} can't be made: {error.strerror}") from error
    try:
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, place, dirs_exist_ok=True)
            else:
                shutil.copy(source, place)
        yield sorted(str(item.relative_to(place)) for item in place.rglob("*") if item.is_file())
    except BaseException as error:
        shutil.rmtree(place)
        if isinstance(error, OSError):
            raise errors.StorageError(f"can't be copied: {error}") from error
        raise


def _relative(found: modelpackage.Package, component: str, place: Path) -> str:
    known = found.components.get(component)
    directory = known.directory if known else found.root
    if not place.is_relative_to(directory):
        raise errors.InvalidRequestError(f"{place} isn't below the component's {directory}")
    return str(place.relative_to(directory))


def _only_model(files: list[str]) -> str | None:
    models = [name for name in files if name.endswith((".onnx", ".ort"))]
    return models[0] if len(models) == 1 else None


@package.command(
    short_help="List the variants of a package.",
    epilog=report.examples("sealcar package ls ocr", "sealcar package ls ocr --json"),
)
@click.argument("directory", type=_DIRECTORY)
@prints_json
def ls(directory: Path, *, as_json: bool) -> None:
    """List the variants of the package in DIRECTORY, with what they are for and their sizes."""
    with _told(), modelpackage.open(directory) as found:
        if as_json:
            report.emit(modelpackage.info(found))
        else:
            package_views.table(found)


@package.command(short_help="Draw a package.", epilog=report.examples("sealcar package tree ocr"))
@click.argument("directory", type=_DIRECTORY)
@prints_json
def tree(directory: Path, *, as_json: bool) -> None:
    """Draw the package in DIRECTORY: components, variants, files, assets and their sizes."""
    with _told(), modelpackage.open(directory) as found:
        if as_json:
            report.emit(package_views.described(found))
        else:
            package_views.tree(found)


@package.command(
    short_help="Find all that is wrong with a package.",
    epilog=report.examples("sealcar package validate ocr && sealcar import ocr"),
)
@click.argument("directory", type=_DIRECTORY)
@prints_json
def validate(directory: Path, *, as_json: bool) -> None:
    """Check the package in DIRECTORY, the content of shared assets included.

    Exit code 6 if there are errors; warnings alone are none.
    """
    with _told(), hashing("hashing shared assets") as progress:
        found = modelpackage.validate(directory, progress=progress)
    if as_json:
        report.emit(found.as_json())
    else:
        for item in found.findings:
            kind = "error" if item.is_error else "warning"
            click.echo(report.plain(f"{kind}: {item.where}: {item.message}"))
        click.echo(report.findings(len(found.errors), len(found.warnings)))
    if found.errors:
        click.get_current_context().exit(errors.DamagedError.exit_code)


@package.command(
    "hash",
    short_help="Print the URI of a directory as a shared asset.",
    epilog=report.examples("sealcar package hash words"),
)
@click.argument("directory", type=_DIRECTORY)
def hash_(directory: Path) -> None:
    """Print `sha256:` and the hash of what is in DIRECTORY, as shared assets are named by it."""
    with _told(), hashing(f"hashing {directory}") as progress:
        click.echo(modelpackage.hash_directory(directory, progress=progress))


@package.command(
    short_help="Rewrite a package, or save it elsewhere.",
    epilog=report.examples(
        "sealcar package commit ocr", "sealcar package commit ocr ocr-copy --dense"
    ),
)
@click.argument("directory", type=_DIRECTORY)
@click.argument("destination", type=_DIRECTORY, required=False)
@click.option("--dense", is_flag=True, help="Move all components into the manifest.")
def commit(directory: Path, destination: Path | None, *, dense: bool) -> None:
    """Write the package in DIRECTORY anew, at once, or a whole copy of it to DESTINATION."""
    mode = modelpackage.WriteMode.DENSE if dense else modelpackage.WriteMode.PRESERVE
    with _told():
        editor = modelpackage.edit(directory)
        if destination is None:
            editor.commit(mode)
        else:
            editor.save_as(destination, mode)
    click.echo(f"wrote {report.plain(str(destination or directory))}")


@package.command(
    short_help="Delete what dead commits left over.",
    epilog=report.examples("sealcar package prune ocr"),
)
@click.argument("directory", type=_DIRECTORY)
def prune(directory: Path) -> None:
    """Finish or clear away what commits left over in DIRECTORY when their processes died."""
    with _told():
        modelpackage.prune(directory)
