"""Callbacks for those who make their own sessions and compilations.

Whoever does so answers for the rest himself: options are checked here, but which model is loaded,
and whether a compilation's blobs and its model are published together, is his to see to.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from sealcar.ort import adapters, configuration, options
from sealcar.ort.scopes import BlobReader, BlobWriter, blobs_of
from sealcar.ort.sources import SealedSource

if TYPE_CHECKING:
    from sealcar.ort.callbacks import Registration
    from sealcar.ort.runtime import Compiler, SessionOptions
    from sealcar.transfer.reading import Scope
    from sealcar.transfer.transactions import Transaction


def set_read_callback(
    session_options: SessionOptions, scope: Scope, *, allow_plaintext_files: bool = False
) -> None:
    """Let sessions made with these options read their blobs from a scope.

    It takes the place of an earlier one, and lives as long as the options.

    Raises:
        PlaintextRefusedError: the options hold something that could write plaintext.
        RuntimeSupportError: this runtime has no callbacks; the message says what can be done.
        SealcarError: the scope can't be opened.
    """
    entries = configuration.entries_of(session_options)
    options.check_caller(entries, allow_plaintext_files=allow_plaintext_files)
    names = blobs_of(SealedSource(scope))
    # a provider knows the last part of a name alone, of a blob in a shared asset; own ones win
    blobs = {posixpath.basename(name): name for name in reversed(names)}
    adapters.registrar().set_read(session_options, BlobReader(scope, blobs))


def clear_read_callback(session_options: SessionOptions) -> None:
    """Take the read callback off; sessions that exist keep theirs."""
    adapters.registrar().clear_read(session_options)


def set_write_callback(compiler: Compiler, transaction: Transaction) -> Registration:
    """Let a compilation write its blobs into a transaction, each name once.

    Args:
        compiler: an `onnxruntime.ModelCompiler` of 1.31 or later; or the address of an
            OrtModelCompilationOptions, and then the result is to be kept until it has compiled.
        transaction: is neither committed nor aborted here.

    Raises:
        RuntimeSupportError: this runtime has no callbacks; the message says what can be done.
    """
    return adapters.registrar().set_write(compiler, BlobWriter(transaction))


def clear_write_callback(compiler: Compiler) -> None:
    """Take the write callback off."""
    adapters.registrar().clear_write(compiler)
