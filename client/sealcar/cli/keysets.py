"""The command that lets keys out, for whoever is to open payloads without sealcar."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sealcar.address import Address
from sealcar.cli import report, tables
from sealcar.cli.listener import prints_json
from sealcar.cli.operator import asks_the_admin_socket
from sealcar.errors import InvalidRequestError
from sealcar.exports import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.admin import Admin
    from sealcar.keysets import TinkExport

_CLEAR: Final = (
    "these are KEYS in the clear: who reads this file opens every generation of the variant, of the"
    " past and to come"
)


@click.command(
    "export-tink",
    short_help="Write the keys of a variant as a Tink keyset.",
    epilog=report.examples(
        "sealcar keys export-tink ocr/det/onnx keyset.json --kek cloud",
        "sealcar keys export-tink ocr@1.2/det/onnx keyset.json --clear",
    ),
)
@click.argument("address", metavar="NAME[@VERSION]/COMPONENT/VARIANT")
@click.argument("destination", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--kek",
    metavar="ALIAS",
    help="Encrypted under this key of the daemon's settings, which must be one in AWS KMS.",
)
@click.option("--clear", is_flag=True, help="Not encrypted: the file is the keys.")
@prints_json
@asks_the_admin_socket
def export_tink(
    admin: Admin,
    *,
    address: str,
    destination: Path,
    kek: str | None,
    clear: bool,
    as_json: bool,
) -> None:
    """Write the keys of a variant to a new FILE, as a Tink keyset.

    Any Tink opens the variant's payloads with it, as they lie in the store, without sealcar and
    without asking any policy. Shared assets that the variant refers to are included. For each
    payload its file in the store and its associated data are printed, in hexadecimal digits.

    The daemon lets keys out only if its setting admin.tink_export says so, and has it in its audit
    log before. The keys are the same in all generations of the package.
    """
    scope = Address.parse(address)
    if not scope.variant or scope.payload:
        raise InvalidRequestError(f"export-tink takes a variant: {scope.package}/COMPONENT/VARIANT")
    if bool(kek) == clear:
        raise InvalidRequestError("say what protects the keys: --kek ALIAS, or --clear")
    with _new_file(destination) as write:
        made = admin.export_tink(scope, kek or "")
        write(made.keyset)
    place = report.plain(str(destination))
    if clear:
        click.echo(f"sealcar: {place}: {_CLEAR}", err=True)
    if as_json:
        report.emit(_described(made, destination))
        return
    click.echo(f"keyset of {report.plain(str(scope))}, generation {made.generation}: {place}")
    if made.kek_uri:
        click.echo(f"encrypted under {report.plain(made.kek_uri)}")
        click.echo(f"with the associated data {made.associated_data.hex()}")
    rows = [(one.name, one.path, one.associated_data.hex()) for one in made.payloads]
    tables.show(("payload", "file", "associated data"), rows)


@contextmanager
def _new_file(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Make a file for nobody else before a key is asked for; it is gone again if none comes.

    A terminal, a pipe or a file that is there is no new file.
    """
    fd = places.create(path, 0o600)
    try:
        yield lambda data: places.write_all(fd, data, path)
        with places.writing(path):
            os.fsync(fd)
            places.sync_folder(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def _described(made: TinkExport, destination: Path) -> dict[str, object]:
    payloads = [
        {"name": one.name, "path": one.path, "associated_data": one.associated_data.hex()}
        for one in made.payloads
    ]
    return {
        "keyset": str(destination),
        "version": made.version,
        "generation": made.generation,
        "kek_uri": made.kek_uri,
        "associated_data": made.associated_data.hex(),
        "payloads": payloads,
    }
