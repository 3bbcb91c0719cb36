"""A part of the daemon that hangs shows in its health, and only then."""

from __future__ import annotations

import threading
import time
from concurrent import futures
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
import structlog
from grpc_health.v1 import (  # type: ignore[import-untyped]  # publishes no types
    health as grpc_health,
)
from grpc_health.v1 import (
    health_pb2_grpc,
)

from sealcar_server.access.sessions import Sessions
from sealcar_server.endpoints.grpc_asking import Asking
from sealcar_server.endpoints.relay import Relay
from sealcar_server.health import Health, Pulse
from sealcar_server.transfer.engine import Engine, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.sealing.scratch import Scratch

SILENCE = 0.2


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sealcar_server.health._EVERY", 0.0)


class Blocked:
    """Work of a worker that ends when it is told to."""

    owner = "somebody"

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def work(self, token: Token, scratch: Scratch) -> None:  # noqa: ARG002  (of a job)
        self.go_on.wait(30)


def becomes(health: Health, *, live: bool) -> None:
    deadline = time.monotonic() + 10
    while health.live is not live:
        assert time.monotonic() < deadline
        health.beat()
        time.sleep(0.02)


def stays_live(ask: Callable[[Callable[[], None]], None]) -> Health:
    health = Health(lambda: True, lambda: False, [Pulse("part", ask, SILENCE)])
    until = time.monotonic() + 3 * SILENCE
    while time.monotonic() < until:
        health.beat()
        assert health.ready
        time.sleep(0.02)
    return health


def test_workers_that_all_hang_are_noticed_and_come_back() -> None:
    engine = Engine(2)
    engine.start()
    blocked = Blocked()
    try:
        health = stays_live(engine.ask)
        engine.put(blocked, Token(0))
        becomes(health, live=True)
        # one that works is enough
        engine.put(blocked, Token(1))
        becomes(health, live=False)
        assert not health.ready
    finally:
        blocked.go_on.set()
    becomes(health, live=True)
    engine.close()


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    def called(self, method: str, code: str, seconds: float) -> None:  # noqa: ARG002  (of a hook)
        self.calls += 1


@contextmanager
def served(path: Path) -> Iterator[futures.ThreadPoolExecutor]:
    with futures.ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        health_pb2_grpc.add_HealthServicer_to_server(grpc_health.HealthServicer(), server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        yield pool
        server.stop(0).wait()


def test_grpc_whose_threads_all_hang_is_noticed_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "s"
    go_on = threading.Event()
    with served(path) as pool, Asking(path, Counted()) as asking:
        try:
            health = stays_live(asking.ask)
            pool.submit(go_on.wait, 30)
            becomes(health, live=False)
        finally:
            go_on.set()
        becomes(health, live=True)


def test_grpc_whose_calls_end_is_no_hanging_one_however_many_wait(tmp_path: Path) -> None:
    path = tmp_path / "s"
    go_on = threading.Event()
    counted = Counted()
    with served(path) as pool, Asking(path, counted) as asking:

        def busy(answered: Callable[[], None]) -> None:
            asking.ask(answered)
            asking.called("Payloads.Commit", "OK", 1.0)

        try:
            pool.submit(go_on.wait, 30)
            stays_live(busy)
            assert counted.calls > 1
            health = Health(lambda: True, lambda: False, [Pulse("gRPC", asking.ask, SILENCE)])
            becomes(health, live=False)
        finally:
            go_on.set()
        becomes(health, live=True)


def test_a_grpc_server_that_is_gone_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with served(path), Asking(path, Counted()) as asking:
        stays_live(asking.ask)
    with Asking(path, Counted()) as asking:
        health = Health(lambda: True, lambda: False, [Pulse("gRPC", asking.ask, SILENCE)])
        becomes(health, live=False)


def test_a_relay_that_hangs_is_noticed_and_comes_back(tmp_path: Path) -> None:
    relay = Relay(tmp_path, Sessions(own_uid=None))
    go_on = threading.Event()
    go_on.set()

    def ask(answered: Callable[[], None]) -> None:
        relay.ask(lambda: answered() if go_on.wait(30) else None)

    relay.start({})
    try:
        # it looks once a second
        health = Health(lambda: True, lambda: False, [Pulse("relay", ask, 1.5)])
        becomes(health, live=True)
        go_on.clear()
        becomes(health, live=False)
    finally:
        go_on.set()
    becomes(health, live=True)
    relay.stop()


class Interleaved(Relay):
    """Is asked by another thread just when it has looked whether it was."""

    def __init__(self, folder: Path) -> None:
        self._kept: Callable[[], None] | None = None
        self.comes: Callable[[], None] | None = None
        super().__init__(folder, Sessions(own_uid=None))

    @property
    def _asked(self) -> Callable[[], None] | None:
        looked = self._kept
        if looked is None:
            self._kept, self.comes = self.comes, None
        return looked

    @_asked.setter
    def _asked(self, value: Callable[[], None] | None) -> None:
        self._kept = value


def test_no_question_to_the_relay_is_lost_whenever_it_comes(tmp_path: Path) -> None:
    answered = threading.Event()
    relay = Interleaved(tmp_path)
    relay.comes = answered.set
    relay.start({})
    assert answered.wait(5)
    relay.stop()


def test_what_is_stuck_is_said_once() -> None:
    pulse = Pulse("part", lambda _answered: None, 0.0)
    with structlog.testing.capture_logs() as said:
        for _ in range(3):
            pulse.beat()
            time.sleep(0.01)
    assert pulse.stuck
    (line,) = said
    assert (line["log_level"], line["part"]) == ("error", "part")
