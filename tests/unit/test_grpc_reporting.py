"""Long work tells whoever waits for it that it goes on, and what came of it."""

from __future__ import annotations

import threading

import pytest

from sealcar.errors import UnavailableError
from sealcar_server.endpoints.reporting import Report, Reporting, Step


def test_work_that_says_nothing_is_heard_of_all_the_same() -> None:
    enough = threading.Event()
    work = Reporting(lambda _: enough.wait(30), repeat=0.01)
    heard = 0
    for step in work.steps():
        assert step == Step(0, 0, "")
        heard += 1
        if heard == 3:
            enough.set()
    assert heard >= 3
    assert work.result() is True


def test_the_last_step_is_told_again_while_there_is_no_new_one() -> None:
    enough = threading.Event()

    def work(report: Report) -> None:
        report(1, 2, "model.onnx", "token")
        enough.wait(30)

    reporting = Reporting(work, repeat=0.01)
    heard = []
    for step in reporting.steps():
        heard.append(step)
        if len(heard) == 3:
            enough.set()
    assert set(heard) == {Step(1, 2, "model.onnx", "token")}


def test_a_failure_is_raised_where_the_result_is_asked_for() -> None:
    def work(_: Report) -> None:
        raise UnavailableError("broken")

    reporting = Reporting(work)
    assert list(reporting.steps()) == []
    with pytest.raises(UnavailableError, match="broken"):
        reporting.result()


def test_who_goes_away_ends_the_work_at_its_next_report() -> None:
    ended = []

    def work(report: Report) -> None:
        try:
            while True:
                report(1, 2, "x")
        except UnavailableError as error:
            ended.append(error)

    steps = Reporting(work).steps()
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert len(ended) == 1
