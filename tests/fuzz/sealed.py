"""Something sealed to begin with: a manifest with its record, and a stream of short segments."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from support.services import Running

from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import Layout, Params
from sealcar_server.sealing.reader import SealedReader
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.sealed_file import LocalFile
from sealcar_server.sealing.writer import SealedWriter

# short segments, so that a short input has several of them
_KEY: Final = PayloadKey(bytes(range(32)), b"fuzz", Params(segment=128))
_SIZE: Final = 300


class SealedPackage:
    """A context manager.

    Attributes:
        manifest: of a generation.
        payload: a sealed file.
        scratch: for readers.
    """

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        running = self._stack.enter_context(Running(folder))
        running.import_()
        self.manifest = (running.generation() / "manifest.json").read_bytes()
        self.scratch = Scratch()
        self.payload = self._sealed(folder / "payload")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def reader(self, fd: int, data: bytes) -> SealedReader:
        """Return a reader of a file with this content, whose record agrees with it."""
        header = data[: _KEY.params.header].ljust(_KEY.params.header, b"\0")
        try:
            size = Layout.of_file(len(data), _KEY.params).plain_size
        except BaseException:
            os.close(fd)
            raise
        return SealedReader(
            LocalFile(fd),
            _KEY,
            commitment=_KEY.commitment(header),
            plain_size=size,
            scratch=self.scratch,
        )

    def _sealed(self, path: Path) -> bytes:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        writer = SealedWriter(fd, _KEY)
        layout = Layout.of_plain(_SIZE, _KEY.params)
        for index in range(layout.count):
            size = layout.span(index).plain_size
            writer.seal_segment(index, self.scratch, size, last=index == layout.count - 1)
        writer.finish()
        writer.close()
        return path.read_bytes()
