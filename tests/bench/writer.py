"""A program: writes one blob out of memory until it is on the disk, and says how long it took.

`python writer.py plain FILE SIZE` or `python writer.py sealcar SOCKET SIZE`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import child
from bench.bulk import Bulk
from support.payload_packages import COMPONENT, PACKAGE

import sealcar
import sealcar.client

if TYPE_CHECKING:
    from collections.abc import Callable

STAGE: Final = "bytes on the disk"
_PIECE: Final = 16 << 20


def plain(path: Path, data: memoryview) -> None:
    """Write a new file, and wait for the disk."""
    with path.open("wb", buffering=0) as file:
        for at in range(0, len(data), _PIECE):
            file.write(data[at : at + _PIECE])
        os.fsync(file.fileno())


def main(way: str, place: Path, size: int) -> None:
    """Have the bytes in memory, and time one write of them."""
    data = bytearray(size)
    for number, chunk in enumerate(Bulk("", size).chunks()):
        data[number << 20 : (number << 20) + len(chunk)] = chunk
    with contextlib.ExitStack() as open_until_the_end:
        write: Callable[[], object]
        if way == "plain":
            open_until_the_end.callback(place.unlink, missing_ok=True)
            write = lambda: plain(place, memoryview(data))  # noqa: E731  (one of two)
        else:
            client = open_until_the_end.enter_context(sealcar.connect(place))
            # never committed: it ends with the client
            transaction = client.begin(PACKAGE, COMPONENT, "written")
            open_until_the_end.enter_context(transaction)
            write = lambda: transaction.write("blob", data, "blob")  # noqa: E731  (the other)

        def work() -> tuple[dict[str, float], None]:
            begun = time.perf_counter()
            write()
            return {STAGE: time.perf_counter() - begun}, None

        child.answer(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
