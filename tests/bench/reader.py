"""A program: reads one blob into fresh memory in one way, and says how long it took.

`python reader.py WAY PATH [SOCKET]`: PATH is the plain file, or the sealed one; the daemon's ways
take the payload "blob" of the usual package, and no PATH.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import bulk, child
from bench.measuring import FreshBuffer
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

import sealcar
import sealcar.client
from sealcar.transfer.memory import advise_huge
from sealcar_server.sealing.layout import AES256_GCM_HKDF_1MB, TAG, Layout
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.stream import StreamCipher, fresh_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.transfer.reading import Scope

STAGE: Final = "bytes in memory"
THREADS: Final = 2
_MALLOC: Final = 16  # glibc's large blocks begin so far behind a page's start
_READ: Final = 1 << 30


def fill(buffer: FreshBuffer, path: Path) -> None:
    """Read a plain file, as much at a time as the system gives."""
    done = 0
    with path.open("rb", buffering=0) as file:
        while done < buffer.size:
            done += file.readinto(buffer.view[done : done + _READ]) or 0


def like_qnn(path: Path) -> FreshBuffer:
    """`std::make_unique<char[]>(size)`, which fills with zeros, and one `ifstream::read`."""
    buffer = FreshBuffer(path.stat().st_size, _MALLOC)
    ctypes.memset(buffer.address, 0, buffer.size)
    fill(buffer, path)
    return buffer


def plain(path: Path, *, huge: bool) -> FreshBuffer:
    """Read into memory as ORT's CPU allocator gives it, 64 bytes behind a page's start."""
    buffer = FreshBuffer(path.stat().st_size)
    if huge:
        advise_huge(buffer.address, buffer.size)
    fill(buffer, path)
    return buffer


def in_process(path: Path, scratches: list[Scratch]) -> FreshBuffer:
    """Decrypt with the key in this process, in two threads, straight into huge pages."""
    with path.open("rb", buffering=0) as file:
        layout = Layout.of_file(path.stat().st_size)
        cipher = StreamCipher(bulk.KEY, os.pread(file.fileno(), layout.params.header, 0))
        buffer = FreshBuffer(layout.plain_size)
        advise_huge(buffer.address, buffer.size)

        def work(first: int) -> None:
            for index in range(first, layout.count, THREADS):
                span = layout.span(index)
                sealed = scratches[first].sealed[: span.size]
                os.preadv(file.fileno(), [sealed], span.at)
                target = buffer.view[span.plain_at : span.plain_at + span.plain_size]
                cipher.open(index, sealed, target, last=index == layout.count - 1)

        threads = [threading.Thread(target=work, args=(each,)) for each in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return buffer


def _warm(scratch: Scratch) -> None:
    """Use the cipher once: that its library gets ready isn't what is measured."""
    header = fresh_header(AES256_GCM_HKDF_1MB)
    tagged, plain = scratch.sealed[: 1 + TAG], scratch.plain[:1]
    StreamCipher(bulk.KEY, header).seal(0, plain, tagged, last=True)
    StreamCipher(bulk.KEY, header).open(0, tagged, plain, last=True)


def sealed(scope: Scope) -> FreshBuffer:
    """Read through the daemon, into memory as ORT's CPU allocator gives it."""
    with scope.reader("blob") as reader:
        buffer = FreshBuffer(reader.size)
        reader.read_into(buffer.address, reader.size)
    return buffer


def through_tmpfs(scope: Scope) -> FreshBuffer:
    """Decrypt to a file in memory, and read that as QNN does."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:  # without a name: it can't stay
        with scope.reader("blob") as reader:
            file.truncate(reader.size)
            with mmap.mmap(file.fileno(), reader.size) as memory:
                start = ctypes.c_char.from_buffer(memory)
                reader.read_into(ctypes.addressof(start), reader.size)
                del start
        return like_qnn(Path(f"/proc/self/fd/{file.fileno()}"))


def main(way: str, path: Path, socket: Path | None) -> None:
    """Be ready for one read, and time it."""
    read: Callable[[], FreshBuffer]
    if way == "qnn":
        read = partial(like_qnn, path)
    elif way in {"plain", "huge"}:
        read = partial(plain, path, huge=way == "huge")
    elif way == "process":
        scratches = [Scratch() for _ in range(THREADS)]
        _warm(scratches[0])
        read = partial(in_process, path, scratches)
    else:
        assert socket
        scope = sealcar.connect(socket).scope(PACKAGE, COMPONENT, VARIANT)
        # neither key nor scope nor connection is what is measured
        scope.read("model.onnx")
        read = partial({"sealcar": sealed, "tmpfs": through_tmpfs}[way], scope)

    def work() -> tuple[dict[str, float], FreshBuffer]:
        begun = time.perf_counter()
        buffer = read()
        took = time.perf_counter() - begun
        bulk.check(buffer.view)
        return {STAGE: took}, buffer

    child.answer(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
