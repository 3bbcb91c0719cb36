"""A program of the fairness bench: many who read at the same time, and what each of them took.

`python crowd.py SOCKET PROCESSES NAMES`: that many processes, each of which reads all of NAMES
(with commas between them) at once, in a thread for each; prints the seconds of every read, as JSON.
`python crowd.py SOCKET list` lists all packages over and over, and prints the seconds of each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.measuring import FreshBuffer
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

import sealcar

if TYPE_CHECKING:
    from sealcar.transfer.reading import Scope


def main() -> None:
    """Do what the command line says."""
    folder, role, *names = sys.argv[1:]
    if role == "list":
        _list(folder)
        return
    start_out, start_in = os.pipe()
    ready_out, ready_in = os.pipe()
    told = [_reader(folder, names[0].split(","), start_out, ready_in) for _ in range(int(role))]
    ready = 0
    while ready < len(told):
        ready += len(os.read(ready_out, len(told)))
    # whoever waits is let go by the end of this pipe, all at the same time
    os.close(start_in)
    seconds: list[float] = []
    for each in told:
        with os.fdopen(each) as answer:
            seconds += json.load(answer)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    print(json.dumps(seconds))  # noqa: T201  (its answer)


def _reader(folder: str, names: list[str], start: int, ready: int) -> int:
    """Make a process that reads, and return where its answer comes."""
    answer_out, answer_in = os.pipe()
    if os.fork():
        os.close(answer_in)
        return answer_out
    # the others' beginnings would never end otherwise
    kept = {0, 1, 2, start, ready, answer_in}
    for descriptor in {int(each.name) for each in Path("/proc/self/fd").iterdir()} - kept:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    with sealcar.connect(folder) as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        seconds = _read(scope, names, start, ready)
    os.write(answer_in, json.dumps(seconds).encode())
    os._exit(0)


def _read(scope: Scope, names: list[str], start: int, ready: int) -> list[float]:
    sizes = {payload.name: payload.size for payload in scope.payloads}
    buffers = [FreshBuffer(sizes[name]) for name in names]
    seconds = [0.0] * len(names)
    begun = threading.Event()
    since = [0.0]

    def read(at: int) -> None:
        begun.wait()
        with scope.reader(names[at]) as reader:
            reader.read_into(buffers[at].address, buffers[at].size)
        seconds[at] = time.perf_counter() - since[0]

    threads = [threading.Thread(target=read, args=(at,)) for at in range(len(names))]
    for thread in threads:
        thread.start()
    os.write(ready, b"!")
    os.read(start, 1)
    since[0] = time.perf_counter()
    begun.set()
    for thread in threads:
        thread.join()
    return seconds


def _list(folder: str) -> None:
    with sealcar.connect(folder) as client:
        for _ in sys.stdin:
            begun = time.perf_counter()
            count = sum(1 for _ in client.catalogue.list())
            print(json.dumps([count, time.perf_counter() - begun]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
