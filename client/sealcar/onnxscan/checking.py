"""The process that looks at models for the daemon: `python -I -m sealcar.onnxscan.checking`.

It gets its orders on standard input, as a file, and a descriptor for each model; it gives up all
else, and answers on standard output. It holds no key. What it answers is hostile all the same: a
model may have taken it over.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final, NoReturn

from sealcar.errors import InvalidPackageError
from sealcar.onnxscan import confinement, jobs
from sealcar.onnxscan.judging import judge

if TYPE_CHECKING:
    from sealcar.onnxscan.jobs import Orders

_STDIN: Final = 0
_STDOUT: Final = 1
# what the interpreter has taken before
_OWN: Final = 128 << 20
_PIECE: Final = 1 << 20


def main() -> NoReturn:
    """Do what standard input says, and end without looking back."""
    status = 1
    try:
        orders = jobs.read(_read(_STDIN))
        confinement.begin(orders.seconds)
        models = [_map(job.descriptor, job.size) for job in orders.jobs]
        os.close(_STDIN)
        memory = _OWN + orders.memory + sum(map(len, models))
        filtered = confinement.complete(memory)
        answer = jobs.answer(filtered=filtered, refused=_refused(models, orders))
        # the pipe holds all of it
        os.write(_STDOUT, answer)
        status = 0
    finally:
        # the usual end asks for more than is left
        os._exit(status)


def _refused(models: list[mmap.mmap | bytes], orders: Orders) -> tuple[int, str] | None:
    for number, (model, job) in enumerate(zip(models, orders.jobs, strict=True)):
        try:
            judge(model, job)
        except InvalidPackageError as error:
            return number, error.message[: jobs.MAX_REASON]
        except MemoryError:
            return number, "to look at it takes more memory than a model may"
    return None


def _map(descriptor: int, size: int) -> mmap.mmap | bytes:
    try:
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b""
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, _PIECE):
        pieces.append(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main()
