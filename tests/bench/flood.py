"""What a flood from one uid does to another's small reads: ratios of one run, as root.

Every figure compares with reads in the same run while nobody floods. Daemon and reader come first
for the machine's scheduler, and those who flood last: what is shown is what the daemon lets them do
to others, not that a machine has so many cores only, or is busy with something else.

The control says how much of that is the machine: reads while as many programs compute (or copy
memory, where the flood moves much) at the same priority and touch no daemon.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from bench import flooding
from support.daemon import Daemon, environment
from support.payload_packages import publish, varied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_READER: Final = 4701
_FLOODER: Final = 4702
_SETTLING: Final = 0.5  # seconds after a change
_PROGRAMS: Final = 2
_READS: Final = 400  # at a time
_QUIET: Final = ""
KINDS: Final = tuple(role for role in flooding.ROLES if role != "reader")


def measure(rounds: int, kinds: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return milliseconds, and ratios of the p99, of each kind of flood.

    Quiet, control and flood take turns, so that what the machine does meanwhile is in all of them;
    each figure is the median of what the turns' reads give, so that no single turn decides.
    """
    os.nice(-15)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        daemon = Daemon(Path(folder), reachable=True)
        for uid in (_READER, _FLOODER):
            daemon.grant(uid)
        with daemon, daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"big": varied(32 << 20), "small": b"plain words"})
            with _program("reader", daemon, _READER) as reader:
                for kind in kinds:
                    found[kind] = _figures(_turns(kind, daemon, reader, rounds))
    return found


def _turns(
    kind: str, daemon: Daemon, reader: subprocess.Popen[bytes], rounds: int
) -> dict[str, list[list[float]]]:
    control = "copying" if kind == "big transfers" else "burning"
    roles = {"quiet": _QUIET, "control": control, "flood": kind}
    seconds: dict[str, list[list[float]]] = {name: [] for name in roles}
    for number in range(rounds):
        for name in list(roles)[:: 1 if number % 2 else -1]:
            seconds[name].append(_while(roles[name], daemon, reader))
            time.sleep(_SETTLING)
    return seconds


def _while(role: str, daemon: Daemon, reader: subprocess.Popen[bytes]) -> list[float]:
    with ExitStack() as programs:
        for _ in range(_PROGRAMS if role else 0):
            programs.enter_context(_program(role, daemon, _FLOODER))
        time.sleep(_SETTLING)
        return _read(reader, _READS)


def _figures(turns: dict[str, list[list[float]]]) -> dict[str, float]:
    figures = {
        f"{name} p{int(part * 100)}": median(_quantile(one, part) for one in seconds) * 1000
        for name, seconds in turns.items()
        for part in (0.5, 0.99)
    }
    figures["flood/quiet"] = figures["flood p99"] / figures["quiet p99"]
    figures["flood/control"] = figures["flood p99"] / figures["control p99"]
    return figures


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def _read(reader: subprocess.Popen[bytes], count: int) -> list[float]:
    assert reader.stdin
    assert reader.stdout
    reader.stdin.write(b"%d\n" % count)
    reader.stdin.flush()
    seconds: list[float] = json.loads(reader.stdout.readline())
    return seconds


@contextmanager
def _program(role: str, daemon: Daemon, uid: int) -> Iterator[subprocess.Popen[bytes]]:
    program = subprocess.Popen(
        [sys.executable, flooding.__file__, role, str(daemon.socket), str(uid)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert program.stdout
        assert program.stdout.readline() == b"ready\n"
        yield program
        assert program.poll() is None, f"{role} ended by itself"
    finally:
        program.kill()
        program.communicate()


def text(found: dict[str, dict[str, float]]) -> str:
    """Return it as lines for people."""
    lines = [f"{'flood':20}" + "".join(f"{key:>14}" for key in next(iter(found.values())))]
    lines += [
        f"{kind:20}" + "".join(f"{value:14.2f}" for value in figures.values())
        for kind, figures in found.items()
    ]
    return "\n".join(lines) + "\n"
