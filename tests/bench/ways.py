"""The ways that are compared: the same bytes as plain files, and through a daemon."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measuring import FreshBuffer
from support.c_programs import call
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

from sealcar.transfer.memory import advise_huge

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar import Client

_READ = 16 << 20


class Bytes:
    """One payload of `size` bytes, as a plain file and in a package."""

    def __init__(self, folder: Path, client: Client, size: int, socket: Path) -> None:
        self.size = size
        self._socket = socket
        self._data = varied(size)
        self._plain = folder / "plain"
        self._client = client
        self._plain.write_bytes(self._data)
        publish(client, {"blob": self._data})
        self._scope = client.scope(PACKAGE, COMPONENT, VARIANT)

    def reads(self) -> dict[str, Callable[[], float]]:
        """Every way takes fresh memory, and fills it."""
        return {
            "plain, as an EP reads (zeroed, page + 16)": self._read_like_an_ep,
            "plain, page + 64": lambda: self._read_plain(huge=False),
            "plain, page + 64, huge pages": lambda: self._read_plain(huge=True),
            "decrypted to tmpfs, then as an EP reads": self._read_by_tmpfs,
            "sealcar, page + 64": self.read_sealed,
            "sealcar, in C (best of 3)": self._read_in_c,
        }

    def writes(self) -> dict[str, Callable[[], float]]:
        """Every way ends when the bytes are on the disk."""
        return {"plain, write and fsync": self._write_plain, "sealcar": self._write_sealed}

    def read_sealed(self) -> float:
        """Read into what looks like ORT's CPU allocator's memory."""
        started = time.perf_counter()
        with self._scope.reader("blob") as reader:
            buffer = FreshBuffer(reader.size)
            reader.read_into(buffer.address, reader.size)
        took = time.perf_counter() - started
        if buffer.view[-64:] != self._data[-64:]:
            raise AssertionError("other bytes came back")
        return took

    def _read_in_c(self) -> float:
        done = call(self._socket, "time", PACKAGE, COMPONENT, VARIANT, "blob")
        return float(done.stdout)

    def _read_like_an_ep(self) -> float:
        started = time.perf_counter()
        self._fill_like_an_ep(self._plain)
        return time.perf_counter() - started

    def _read_by_tmpfs(self) -> float:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            started = time.perf_counter()
            file.truncate(self.size)
            with mmap.mmap(file.fileno(), self.size) as memory:
                start = ctypes.c_char.from_buffer(memory)
                with self._scope.reader("blob") as reader:
                    reader.read_into(ctypes.addressof(start), self.size)
                del start
            self._fill_like_an_ep(Path(file.name))
            return time.perf_counter() - started

    def _fill_like_an_ep(self, path: Path) -> None:
        buffer = FreshBuffer(self.size, 16)
        ctypes.memset(buffer.address, 0, self.size)
        self._fill(buffer, path)

    def _read_plain(self, *, huge: bool) -> float:
        started = time.perf_counter()
        buffer = FreshBuffer(self.size)
        if huge:
            advise_huge(buffer.address, self.size)
        self._fill(buffer, self._plain)
        return time.perf_counter() - started

    def _fill(self, buffer: FreshBuffer, path: Path) -> None:
        done = 0
        with path.open("rb", buffering=0) as file:
            while done < self.size:
                done += file.readinto(buffer.view[done:]) or 0

    def _write_plain(self) -> float:
        target = self._plain.with_suffix(".written")
        view = memoryview(self._data)
        started = time.perf_counter()
        with target.open("wb", buffering=0) as file:
            for at in range(0, self.size, _READ):
                file.write(view[at : at + _READ])
            os.fsync(file.fileno())
        took = time.perf_counter() - started
        target.unlink()
        return took

    def _write_sealed(self) -> float:
        with self._client.begin(PACKAGE, COMPONENT, "written") as transaction:
            started = time.perf_counter()
            transaction.write("blob", self._data, "blob")
            return time.perf_counter() - started


def small_reads(client: Client, count: int) -> list[float]:
    """Return the seconds of many reads of a payload of 64,000 bytes."""
    publish(client, {"small": varied(64_000)}, "small")
    scope = client.scope("small", COMPONENT, VARIANT)
    scope.read("small")
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        scope.read("small")
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)
