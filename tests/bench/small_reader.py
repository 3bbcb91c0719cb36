"""A program that reads small payloads one after the other, or a big one without end.

`python small_reader.py SOCKET COUNT`: says the p50 and the p99 of that many reads of "small".
`python small_reader.py SOCKET`: says "ready", and reads "big" until it is killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import child
from bench.measuring import FreshBuffer
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

import sealcar
import sealcar.client

if TYPE_CHECKING:
    from sealcar.transfer.reading import Scope

SMALL: Final = 64_000  # bytes that fit into a packet, less than 64 KiB of them
P50: Final = "p50 of a read"
P99: Final = "p99 of a read"
_FIRST: Final = 100


def main(socket: str, count: int | None) -> None:
    """Do what the command line says."""
    scope = sealcar.connect(socket).scope(PACKAGE, COMPONENT, VARIANT)
    if count is None:
        _without_end(scope)
        return
    scope.read("small")

    def work() -> tuple[dict[str, float], None]:
        seconds = []
        for _ in range(_FIRST + count):
            begun = time.perf_counter()
            scope.read("small")
            seconds.append(time.perf_counter() - begun)
        kept = sorted(seconds[_FIRST:])
        return {P50: kept[count // 2], P99: kept[count * 99 // 100]}, None

    child.answer(work)


def _without_end(scope: Scope) -> None:
    buffer = FreshBuffer(scope.payload("big").size)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        with scope.reader("big") as reader:
            reader.read_into(buffer.address, buffer.size)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else None)
