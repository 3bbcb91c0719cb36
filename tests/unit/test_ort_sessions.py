"""Where a session is made: beside the runtime's threads, and on no core for good."""

from __future__ import annotations

import ctypes
import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.ort.sessions import make_way

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES: Final = 50
DEFAULT: Final = SimpleNamespace(intra_op_num_threads=0)
several_cores = pytest.mark.skipif(
    not 1 < len(os.sched_getaffinity(0)) == os.cpu_count(),
    reason="there is one core, for everybody, or they aren't all this process's",
)


def in_a_thread(does: Callable[[], None]) -> None:
    """Call something on a thread whose cores are its own."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            does()
        except BaseException as error:  # noqa: BLE001  (it is raised again)
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def after(options: object) -> int:
    """Return on which core a thread is after it was on the last one and made way."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    os.sched_setaffinity(0, allowed)
    make_way(options)
    assert os.sched_getaffinity(0) == allowed
    return int(ctypes.CDLL(None).sched_getcpu())


@several_cores
def test_the_first_core_is_where_a_session_is_made_and_the_others_stay_allowed() -> None:
    def check() -> None:
        first = min(os.sched_getaffinity(0))
        # the kernel may move a thread at any time
        assert sum(after(DEFAULT) == first for _ in range(TRIES)) > TRIES / 2

    in_a_thread(check)


@several_cores
def test_nobody_moves_where_the_runtime_pins_no_threads() -> None:
    def check() -> None:
        last = max(os.sched_getaffinity(0))
        options = SimpleNamespace(intra_op_num_threads=2)
        assert sum(after(options) == last for _ in range(TRIES)) > TRIES / 2

    in_a_thread(check)


@several_cores
def test_a_thread_that_may_use_one_core_alone_stays_there() -> None:
    def check() -> None:
        last = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {last})
        assert after(DEFAULT) == last

    in_a_thread(check)


@several_cores
def test_nobody_moves_where_a_process_has_a_part_of_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: len(os.sched_getaffinity(0)) + 1)

    def check() -> None:
        last = max(os.sched_getaffinity(0))
        assert sum(after(DEFAULT) == last for _ in range(TRIES)) > TRIES / 2

    in_a_thread(check)


def test_a_filter_that_forbids_to_ask_for_cores_keeps_no_session_from_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_getaffinity", forbidden)
    make_way(DEFAULT)
