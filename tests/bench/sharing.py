"""What sharing saves: a second worker's time against the first one's, and eight workers' memory.

First and second are different clients, and the second finds what the first had filled. To touch is
to read every byte once, since an untouched mapping is address space and nothing more.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.daemon import Daemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.segment_readers import Readers, mapped_by

from sealcar.admin import Admin

if TYPE_CHECKING:
    from sealcar import Client

_PIECE: Final = 1 << 20
_WORKERS: Final = 8


def measure(folder: Path | None, size: int, rounds: int) -> dict[str, float]:
    """Return medians in milliseconds, and the ratios of them."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="sealcar-bench-") as place:
        # segments get three quarters of it
        settings = {"transfer.memory_limit": str(max(2 * size, 16 << 20))}
        with Daemon(Path(place), settings=settings) as daemon:
            with daemon.connect() as client:
                publish(client, {"weights": varied(size)})
            samples = [_round(daemon, turn) for turn in range(rounds + 1)][1:]
            first, first_touched, second, second_touched = (
                statistics.median(column) * 1000 for column in zip(*samples, strict=True)
            )
            one, all_of_them = (_proportional(daemon, count) for count in (1, _WORKERS))
    return {
        "first_available_ms": first,
        "first_touched_ms": first_touched,
        "second_available_ms": second,
        "second_touched_ms": second_touched,
        "second_worker_available_vs_first": second / first,
        "second_worker_touched_vs_first": second_touched / first_touched,
        "workers8_pss_vs_one": all_of_them / one,
    }


def text(found: dict[str, float]) -> str:
    """Return it as lines for people."""
    return "".join(f"{name:40}{value:10.3f}\n" for name, value in found.items())


def _round(daemon: Daemon, turn: int) -> tuple[float, float, float, float]:
    with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
        admin.lock()
        admin.unlock()
    with daemon.connect() as one, daemon.connect() as other:
        for client in (one, other):
            # neither key nor scope nor connection is what is measured
            client.scope(PACKAGE, COMPONENT, VARIANT).read("model.onnx")
        clients = (one, other) if turn % 2 else (other, one)
        return (*_map(clients[0]), *_map(clients[1]))


def _map(client: Client) -> tuple[float, float]:
    scope = client.scope(PACKAGE, COMPONENT, VARIANT)
    scope.open()
    scratch = ctypes.create_string_buffer(_PIECE)
    began = time.perf_counter()
    mapped = scope.map("weights", shared=True)
    available = time.perf_counter() - began
    for at in range(0, mapped.size, _PIECE):
        ctypes.memmove(scratch, mapped.address + at, min(_PIECE, mapped.size - at))
    touched = time.perf_counter() - began
    mapped.close()
    return available, touched


def _proportional(daemon: Daemon, workers: int) -> int:
    with Readers(daemon, "weights", workers) as readers:
        return sum(mapped_by(pid).proportional for pid in readers.pids)
