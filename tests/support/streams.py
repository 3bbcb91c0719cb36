"""Sealed files for tests: written and read through the product's own writer and reader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sealcar_server.sealing.layout import Layout, Params
from sealcar_server.sealing.reader import SealedReader
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.sealed_file import LocalFile
from sealcar_server.sealing.writer import SealedSize, SealedWriter

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.sealing.derivation import PayloadKey


def writer_with(header: bytes) -> type[SealedWriter]:
    """Return a writer that begins with this header: for known answers only."""

    class KnownHeaderWriter(SealedWriter):
        @staticmethod
        def _new_header(_params: Params) -> bytes:
            return header

    return KnownHeaderWriter


def seal(
    path: Path, key: PayloadKey, plain: bytes, writer: type[SealedWriter] = SealedWriter
) -> SealedSize:
    """Seal a plaintext into a new file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    layout = Layout.of_plain(len(plain), key.params)
    scratch = Scratch(key.params.segment)
    with writer(fd, key) as made:
        for index in range(layout.count):
            at, size = layout.span(index)[2:]
            scratch.plain[:size] = plain[at : at + size]
            made.seal_segment(index, scratch, size, last=index == layout.count - 1)
        return made.finish()


def opened(
    path: Path,
    key: PayloadKey,
    sealed: SealedSize | None = None,
    scratch: Scratch | None = None,
    *,
    at_once: bool = False,
) -> SealedReader:
    """Open a sealed file; without a record, as one that commits to whatever the file holds."""
    if sealed is None:
        sealed = unrecorded(path, key)
    return SealedReader(
        LocalFile(os.open(path, os.O_RDONLY)),
        key,
        commitment=sealed.commitment,
        plain_size=sealed.plain_size,
        scratch=scratch or Scratch(key.params.segment),
        at_once=at_once,
    )


def unrecorded(path: Path, key: PayloadKey) -> SealedSize:
    """Return what a record would say if it described this file as it is."""
    data = path.read_bytes()
    size = Layout.of_file(len(data), key.params).plain_size
    return SealedSize(size, key.commitment(data[: key.params.header]))


def unseal(
    path: Path, key: PayloadKey, sealed: SealedSize | None = None, scratch: Scratch | None = None
) -> bytes:
    """Return the whole plaintext."""
    scratch = scratch or Scratch(key.params.segment)
    with opened(path, key, sealed, scratch) as reader:
        return read(reader, scratch, 0, reader.layout.plain_size)


def read(reader: SealedReader, scratch: Scratch, offset: int, size: int) -> bytes:
    """Return a range of the plaintext, cut at its end."""
    layout, pieces = reader.layout, []
    end = min(offset + size, layout.plain_size)
    for index in range(layout.segment_of(offset), layout.segment_of(max(end - 1, offset)) + 1):
        span = reader.read_segment(index, scratch)
        low, high = max(offset - span.plain_at, 0), max(end - span.plain_at, 0)
        pieces.append(bytes(scratch.plain[low : min(high, span.plain_size)]))
    return b"".join(pieces)
