from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import KeyRefusedError, KeyUnavailableError
from sealcar_server.keys import circuit as module
from sealcar_server.keys.circuit import Circuit

if TYPE_CHECKING:
    from collections.abc import Callable


class Service:
    def __init__(self) -> None:
        self.asked = 0
        self.gone = True

    def ask(self) -> str:
        self.asked += 1
        if self.gone:
            raise KeyUnavailableError("gone")
        return "key"


@pytest.fixture
def service() -> Service:
    return Service()


def retry_after(act: Callable[[], object]) -> float:
    with pytest.raises(KeyUnavailableError, match="gone") as caught:
        act()
    assert caught.value.retry_after
    return caught.value.retry_after


def test_after_a_failure_nobody_asks_until_it_is_time(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.2)
    circuit = Circuit()
    for _ in range(50):
        retry_after(lambda: circuit.call(service.ask))
    assert service.asked == 1
    time.sleep(0.25)
    service.gone = False
    assert circuit.call(service.ask) == "key"
    assert [circuit.call(service.ask) for _ in range(3)] == ["key"] * 3


def test_times_double_to_a_bound_and_differ_by_chance(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit, other = Circuit(), Circuit()
    clock = [0.0]
    monkeypatch.setattr("sealcar_server.keys.circuit.time.monotonic", lambda: clock[0])
    times = []
    for _ in range(12):
        times.append(retry_after(lambda: circuit.call(service.ask)))
        retry_after(lambda: other.call(service.ask))
        clock[0] += 31
    assert service.asked == 24
    bounds = [min(0.5 * 2**n, 30) for n in range(12)]
    assert all(bound / 2 - 0.1 <= found for bound, found in zip(bounds, times, strict=True))
    assert all(found <= max(bound, 0.5) + 0.1 for bound, found in zip(bounds, times, strict=True))
    assert circuit._until != other._until


def test_one_call_tries_while_the_others_wait_for_its_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.05)
    circuit = Circuit()
    retry_after(lambda: circuit.call(service.ask))
    time.sleep(0.06)
    asked, release = threading.Event(), threading.Event()

    def slow() -> str:
        asked.set()
        release.wait(5)
        return "key"

    thread = threading.Thread(target=lambda: circuit.call(slow))
    thread.start()
    asked.wait(5)
    retry_after(lambda: circuit.call(service.ask))
    assert service.asked == 1
    release.set()
    thread.join()
    service.gone = False
    assert circuit.call(service.ask) == "key"


def test_calls_that_fail_together_are_one_failure(service: Service) -> None:
    circuit = Circuit()
    together = threading.Barrier(8)

    def fail() -> None:
        together.wait(5)
        service.ask()

    threads = [
        threading.Thread(target=lambda: retry_after(lambda: circuit.call(fail))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (service.asked, circuit._failures) == (8, 1)


def test_a_refusal_is_an_answer(service: Service) -> None:
    circuit = Circuit()

    def refuse() -> None:
        raise KeyRefusedError("no")

    for _ in range(3):
        with pytest.raises(KeyRefusedError):
            circuit.call(refuse)
    retry_after(lambda: circuit.call(service.ask))
    with pytest.raises(KeyRefusedError):
        circuit.call(refuse, now=True)
    service.gone = False
    assert circuit.call(service.ask) == "key"


def test_who_must_know_now_asks_in_any_case(service: Service) -> None:
    circuit = Circuit()
    for _ in range(3):
        with pytest.raises(KeyUnavailableError):
            circuit.call(service.ask, now=True)
    assert service.asked == 3
    service.gone = False
    assert circuit.call(service.ask) == "key"
