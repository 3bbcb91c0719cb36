"""Whether all who read at once progress alike, beside a listing of 10,000 packages too.

Every figure of a crowd is the slowest reader's time over the median's: all begin at once, and read
as much. Small reads are timed while nothing else happens, and beside eight big transfers.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

from bench.bulk import Bulk, publish
from support.daemon import Daemon, environment
from support.many_packages import fill
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import Client

GOAL: Final = 1.1
SLOWEST: Final = "slowest/median"
_PACKAGES: Final = 10_000
SIZE: Final = 32 << 20
SMALL: Final = 64_000
_MANY: Final = tuple(f"many-{number}" for number in range(8))
_SMALL_READS: Final = 2000
_PROGRAM: Final = str(Path(__file__).with_name("crowd.py"))
CALLBACKS: Final = "one payload, eight callbacks"
PAYLOADS: Final = "many payloads, one session"
CLIENTS: Final = "64 clients"
# processes and what each of them reads at once
CROWDS: Final = {
    CALLBACKS: (1, ("big",) * 8),
    PAYLOADS: (1, _MANY),
    CLIENTS: (64, ("big",)),
}


# by way and by what was measured: a figure of each round
Found: TypeAlias = dict[str, dict[str, tuple[float, ...]]]


def measure(folder: Path | None, rounds: int) -> Found:
    """Return ratios and seconds of each crowd, alone and beside a listing, and of small reads."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="sealcar-fairness-") as place:
        daemon = Daemon(Path(place))
        with daemon, daemon.connect() as client:
            big = [Bulk(name, SIZE) for name in ("big", *_MANY)]
            publish(client, [*big, Bulk("small", SMALL)])
            fill(daemon.store, PACKAGE, _PACKAGES)
            found: Found = {"small reads, idle": _small(client)}
            with _readers_without_end(daemon):
                found["small reads beside 8 transfers"] = _small(client)
            for name, (processes, names) in CROWDS.items():
                found[name] = _crowd(daemon, processes, names, rounds)
            with _listing(daemon) as lists:
                # what manifests come to is remembered afterwards
                found["list of 10,000, the first one"] = _next(lists)
                found["list of 10,000, alone"] = _next(lists)
                for name, (processes, names) in CROWDS.items():
                    found[beside(name)] = _crowd(daemon, processes, names, rounds)
                found["list of 10,000 beside them"] = _next(lists)
    return found


def beside(name: str) -> str:
    """Return what a crowd is called that reads beside a listing."""
    return f"{name}, list"


def text(found: Found) -> str:
    """Return it as lines for people."""
    lines = []
    for name, figures in found.items():
        medians = {what: statistics.median(values) for what, values in figures.items()}
        shown = "  ".join(
            f"{what} {medians[what]:8.3f} (at most {max(values):.3f})"
            for what, values in figures.items()
        )
        over = "  OVER THE GOAL" if medians.get(SLOWEST, 0) > GOAL else ""
        lines.append(f"{name:36}{shown}{over}")
    return "\n".join(lines) + "\n"


def _crowd(
    daemon: Daemon, processes: int, names: tuple[str, ...], rounds: int
) -> dict[str, tuple[float, ...]]:
    ratios, medians = [], []
    for _ in range(rounds):
        arguments = [sys.executable, _PROGRAM, str(daemon.socket), str(processes), ",".join(names)]
        done = subprocess.run(arguments, env=environment(), capture_output=True, check=True)
        seconds: list[float] = json.loads(done.stdout)
        medians.append(statistics.median(seconds))
        ratios.append(max(seconds) / medians[-1])
    return {SLOWEST: tuple(ratios), "seconds": tuple(medians)}


def _small(client: Client) -> dict[str, tuple[float, ...]]:
    scope = client.scope(PACKAGE, COMPONENT, VARIANT)
    seconds = []
    for turn in range(_SMALL_READS + 100):
        begun = time.perf_counter()
        scope.read("small")
        if turn >= 100:
            seconds.append(time.perf_counter() - begun)
    seconds.sort()
    return {
        "p50 ms": (seconds[len(seconds) // 2] * 1e3,),
        "p99 ms": (seconds[len(seconds) * 99 // 100] * 1e3,),
    }


def _next(lists: IO[bytes]) -> dict[str, tuple[float, ...]]:
    """Wait for the end of the listing that is under way."""
    count, took = json.loads(lists.readline())
    assert count == _PACKAGES + 1
    return {"seconds": (took,)}


@contextmanager
def _readers_without_end(daemon: Daemon) -> Iterator[None]:
    """Have eight big transfers under way."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import os, sealcar\n"
        "from bench.measuring import FreshBuffer\n"
        "scope = sealcar.connect(sys.argv[2]).scope(*sys.argv[3:6])\n"
        "buffer = FreshBuffer(scope.payload('big').size)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    with scope.reader('big') as reader:\n"
        "        reader.read_into(buffer.address, buffer.size)\n"
    )
    tests = str(Path(__file__).parent.parent)
    arguments = [tests, str(daemon.socket), PACKAGE, COMPONENT, VARIANT]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, *arguments], env=environment(), stdout=subprocess.PIPE
        )
        for _ in range(8)
    ]
    try:
        for each in running:
            assert each.stdout
            each.stdout.readline()
        yield
    finally:
        for each in running:
            each.kill()
            each.communicate()


@contextmanager
def _listing(daemon: Daemon) -> Iterator[IO[bytes]]:
    """List all packages over and over; a line says how long each time took."""
    with subprocess.Popen(
        [sys.executable, _PROGRAM, str(daemon.socket), "list"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n" * 1000)
        process.stdin.flush()
        yield process.stdout
        process.kill()
