"""Weights on their way before they are asked for, where that can't be done or isn't wanted."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.errors import ConfigurationError
from sealcar.ort import runtime
from sealcar.ort.ahead import ViewsAhead
from sealcar.ort.sources import wants_early
from sealcar.transfer.arriving import LEAST, ArrivingMemory, ArrivingPayload

if TYPE_CHECKING:
    from collections.abc import Iterator

_MORE_THAN_THERE_IS: Final = 1 << 47


@pytest.fixture
def no_more_threads() -> Iterator[None]:
    before = threading.stack_size(_MORE_THAN_THERE_IS)
    try:
        yield
    finally:
        threading.stack_size(before)


def early(_: str) -> ArrivingPayload | None:
    def reader() -> None:
        raise AssertionError("there is no thread to read it")

    try:
        return ArrivingPayload(ArrivingMemory(LEAST), reader)  # type: ignore[arg-type]  # not called
    except OSError:
        return None


@pytest.mark.usefixtures("no_more_threads")
def test_where_there_can_be_no_more_threads_weights_come_when_they_are_asked_for() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    ahead = ViewsAhead(lambda name: memoryview(name.encode()), ("a", "b"), early)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [bytes(ahead.take(name)) for name in "ab"] == [b"a", b"b"]
    ahead.arrive()


def test_whoever_waits_for_weights_gets_them_though_no_others_are_wanted_any_more() -> None:
    begun, go = threading.Event(), threading.Event()
    fetched: list[str] = []

    def view(name: str) -> memoryview:
        begun.set()
        go.wait(20)
        fetched.append(name)
        return memoryview(name.encode())

    ahead = ViewsAhead(view, ("a", "b", "c"))
    begun.wait(20)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ahead.take, "b")
        until = time.monotonic() + 20
        while "b" in ahead._coming:
            assert time.monotonic() < until
            time.sleep(0.001)
        time.sleep(0.01)
        ahead.give_up()
        go.set()
        assert bytes(waiting.result(20)) == b"b"
    assert bytes(ahead.take("c")) == b"c"
    assert fetched == ["a", "b", "c"]


def test_whoever_wants_whole_weights_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    able = runtime.version() >= (1, 31)
    for wanted, answer in (("", able), ("early", able), ("whole", False)):
        monkeypatch.setenv("SEALCAR_WEIGHTS", wanted)
        assert wants_early() is answer
    monkeypatch.setenv("SEALCAR_WEIGHTS", "0")
    with pytest.raises(ConfigurationError, match="early or whole"):
        wants_early()
