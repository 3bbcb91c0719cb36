"""Whoever is refused over and over doesn't fill the log, and hides nobody else's line."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import pytest
import structlog

from sealcar_server.access import rates
from sealcar_server.endpoints.refusal_lines import RefusalLines

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE: Final = 100


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rates, "time", clock)
    return clock


@pytest.fixture
def said() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as said:
        yield said


def test_a_caller_has_so_many_lines_at_once_and_then_one_a_second(
    clock: Clock, said: list[structlog.typing.EventDict]
) -> None:
    lines = RefusalLines()
    log = structlog.get_logger("test")
    for _ in range(10 * AT_ONCE):
        lines.tell(log.info, "uid 1", "refused", error="why")
    assert said == [{"event": "refused", "error": "why", "log_level": "info"}] * AT_ONCE
    for _ in range(10):
        clock.now += 0.5
        lines.tell(log.warning, "uid 1", "refused")
    assert len(said) == AT_ONCE + 5
    # every one is in a line or counted by one
    left_out = [line.get("left_out", 0) for line in said]
    assert left_out[AT_ONCE:] == [9 * AT_ONCE + 1, 1, 1, 1, 1]
    assert len(said) + sum(left_out) == 10 * AT_ONCE + 10


@pytest.mark.usefixtures("clock")
def test_a_flood_of_one_leaves_others_their_lines(said: list[structlog.typing.EventDict]) -> None:
    lines = RefusalLines()
    for _ in range(2 * AT_ONCE):
        lines.tell(structlog.get_logger("test").info, "uid 1", "refused")
    del said[:]
    for _ in range(2):
        lines.tell(structlog.get_logger("test").info, "uid 2", "refused")
    assert [line.get("left_out") for line in said] == [AT_ONCE, None]


@pytest.mark.usefixtures("clock")
def test_lines_of_threads_are_all_written_or_counted() -> None:
    lines = RefusalLines()
    written: list[int] = []

    def write(_event: str, *, left_out: int = 0) -> None:
        written.append(1 + left_out)

    def refuse() -> None:
        for _ in range(AT_ONCE):
            lines.tell(write, "uid 1", "refused")

    threads = [threading.Thread(target=refuse) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines.tell(write, "uid 2", "refused")
    assert len(written) == AT_ONCE + 1
    assert sum(written) == 4 * AT_ONCE + 1
