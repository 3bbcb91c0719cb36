"""Shared assets: their files, and that their content is what their names say."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.modelpackage.hashing import hash_of
from sealcar.publish.files import checked_name
from sealcar.publish.models import add_model, beside, is_model
from sealcar.publish.payloads import OTHER, Payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.publish.files import SourceFile
    from sealcar.publish.packages import OpenedPackage

_MOST_WORKERS: Final = 8


def open_assets(opened: OpenedPackage) -> dict[str, Payloads]:
    """Return a package's shared assets, by their URIs, without any payload as yet.

    Raises:
        InvalidPackageError: one isn't there, or its content isn't what its URI says.
        StorageError, ExhaustedError: a file can't be read.
    """
    assets = {}
    for asset in opened.package.shared_assets.values():
        with _of(asset.uri):
            payloads = Payloads(opened.tree(Path(asset.path)), asset=asset.uri)
            _check_content(payloads)
        assets[asset.uri] = payloads
    return assets


def finish(asset: Payloads) -> None:
    """Add what no variant has made use of: models, then all else.

    Raises:
        InvalidPackageError: naming the place and the rule.
    """
    with _of(asset.asset):
        files = list(asset.tree.walk())
        for name in files:
            if is_model(name) and name not in asset:
                add_model(asset, name, beside(asset, name), taken=None)
        for name in files:
            if name not in asset:
                asset.add_file(name, OTHER)


def _check_content(asset: Payloads) -> None:
    files = [asset.tree.open(name) for name in asset.tree.walk()]
    for file in files:
        # as variants call it
        checked_name(f"{asset.asset}/{file.name}")
    if not files:
        raise InvalidPackageError("it has no files")
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_WORKERS)) as pool:
        digests = list(pool.map(_digest, files))
    found = hash_of(zip((os.fsencode(file.name) for file in files), digests, strict=True))
    if found != asset.asset:
        raise InvalidPackageError(
            f"its content isn't what its name says: it hashes to {found}; restore it, or add it to "
            "the package anew"
        )


def _digest(file: SourceFile) -> str:
    digest = hashlib.sha256()
    for piece in file.chunks():
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def _of(uri: str) -> Iterator[None]:
    try:
        yield
    except InvalidPackageError as error:
        message = f"shared asset {uri}: {error.message}"
        raise InvalidPackageError(message, place=error.place) from error
