"""Reads all payloads of a variant, several at a time; tests/native/scale_reader.c does so in C.

`python reading.py STREAMS LARGEST PACKAGE COMPONENT VARIANT`: see there for what it says.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.bulk import check
from bench.measuring import FreshBuffer

import sealcar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealcar import Client
    from sealcar.transfer.payloads import PayloadRef
    from sealcar.transfer.reading import Scope

_PAUSE: Final = 0.0002
# each MiB of a blob begins with its number, so never with this
_BEFORE: Final = b"\xff" * 8


class _Stream:
    """Memory for one payload at a time.

    Args:
        largest: bytes that it must hold.
    """

    def __init__(self, largest: int) -> None:
        self._buffer = FreshBuffer(largest, 0)
        for at in range(0, largest, 4096):
            self._buffer.view[at] = 0
        self._asked = 0.0
        self._first = 0.0

    def look(self) -> None:
        """See whether the first byte has come that is waited for."""
        if self._asked and not self._first and self._buffer.view[:8] != _BEFORE:
            self._first = time.monotonic()

    def read(self, scope: Scope, payload: PayloadRef) -> float:
        """Read a payload, and return the seconds until its first byte was there."""
        self._first = 0.0
        begun = time.monotonic()
        self._buffer.view[:8] = _BEFORE
        self._asked = begun
        with scope.reader(payload.name) as reader:
            reader.read_into(self._buffer.address, reader.size)
        first = self._first or time.monotonic()
        self._asked = 0.0
        if payload.kind == "blob":
            check(self._buffer.view[: payload.size])
        return first - begun


def main() -> None:
    """Be ready, and read as often as told to."""
    count, largest, *name = sys.argv[1:]
    streams = [_Stream(int(largest)) for _ in range(int(count))]
    with sealcar.connect(timeout=120) as client:
        print("ready", flush=True)  # noqa: T201  (its answer)
        for _ in sys.stdin:
            print(json.dumps(_read_all(client, name, streams)), flush=True)  # noqa: T201


def _read_all(client: Client, name: list[str], streams: list[_Stream]) -> Mapping[str, object]:
    begun, computed = time.monotonic(), time.process_time()
    scope = client.scope(*name)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(streams, over))
    watcher.start()
    try:
        todo = iter(scope.payloads)
        lock = threading.Lock()
        with ThreadPoolExecutor(len(streams)) as pool:
            done = pool.map(lambda each: list(_reads(scope, each, todo, lock)), streams)
            first = list(itertools.chain.from_iterable(done))
        ended = time.monotonic()
    finally:
        over.set()
        watcher.join()
    return {
        "begun": begun,
        "ended": ended,
        "bytes": sum(each.size for each in scope.payloads),
        "busy": time.process_time() - computed,
        "first": first,
    }


def _reads(
    scope: Scope, stream: _Stream, todo: Iterator[PayloadRef], lock: threading.Lock
) -> Iterator[float]:
    """Read what nobody else does, and yield each blob's seconds to its first byte."""
    while True:
        with lock:
            payload = next(todo, None)
        if payload is None:
            return
        took = stream.read(scope, payload)
        if payload.kind == "blob":
            yield took


def _watch(streams: list[_Stream], over: threading.Event) -> None:
    while not over.wait(_PAUSE):
        for stream in streams:
            stream.look()


if __name__ == "__main__":
    main()
