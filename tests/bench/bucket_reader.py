"""A program: gets one payload of a bucket into memory, and says how long it took.

`python bucket_reader.py daemon SOCKET`: the payload "blob" of the usual package, through a daemon.
`python bucket_reader.py plain ENDPOINT KEY`: its object as it lies there, by the library alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import child
from bench.measuring import FreshBuffer
from scale.bucket import NAME, REGION
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

import sealcar
from sealcar_server.store.bucket.connection import Place, connect

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST: Final = "first part authentic, or header there"
STAGE: Final = "bytes in memory"
_PAGE: Final = 64  # where an allocator's buffers begin, behind a page's start


def by_daemon(socket: str) -> Callable[[], tuple[dict[str, float], object]]:
    """Return what reads through a daemon."""
    client = sealcar.connect(socket)
    scope = client.scope(PACKAGE, COMPONENT, VARIANT)
    scope.open()

    def work() -> tuple[dict[str, float], object]:
        begun = time.perf_counter()
        with scope.reader("blob") as reader:
            first = time.perf_counter() - begun
            buffer = FreshBuffer(reader.size, _PAGE)
            reader.read_into(buffer.address, reader.size)
        return {FIRST: first, STAGE: time.perf_counter() - begun}, (client, buffer)

    return work


def plain(endpoint: str, key: str) -> Callable[[], tuple[dict[str, float], object]]:
    """Return what downloads an object in one request."""
    store = connect(Place(NAME, "", endpoint, REGION, allow_http=True))

    def work() -> tuple[dict[str, float], object]:
        begun = time.perf_counter()
        answer = store.get(key)
        first = time.perf_counter() - begun
        data = answer.bytes()
        return {FIRST: first, STAGE: time.perf_counter() - begun}, data

    return work


if __name__ == "__main__":
    way, *rest = sys.argv[1:]
    child.answer(by_daemon(*rest) if way == "daemon" else plain(*rest))
