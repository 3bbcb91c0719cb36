"""What a client does when it is interrupted in the middle, by Ctrl-C or by an alarm of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

from sealcar import errors
from sealcar.transfer.pool import CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BIG = varied(20 << 20)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, {"one": b"1", "two": b"2", "big": BIG})
        yield daemon


class AlarmError(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Interrupt the block, which has to be waiting for something then."""

    def interrupt(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with pytest.raises(AlarmError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def stopped(daemon: Daemon, seconds: float) -> Iterator[None]:
    """Let the daemon answer nothing for a while; the block goes on meanwhile."""
    os.kill(daemon.pid, signal.SIGSTOP)
    waking = threading.Timer(seconds, os.kill, (daemon.pid, signal.SIGCONT))
    waking.start()
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
        waking.join()


def test_an_answer_that_nobody_waited_for_is_never_taken_for_anothers(daemon: Daemon) -> None:
    with daemon.connect() as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        assert scope.read("one") == b"1"
        with stopped(daemon, 0.6):
            with interrupted_after(0.2):
                scope.read("one")
            assert scope.read("two") == b"2"


def test_who_is_interrupted_while_waiting_for_a_connection_takes_none_with_him(
    daemon: Daemon,
) -> None:
    with daemon.connect(timeout=2) as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        with ExitStack() as readers:
            for _ in range(CONNECTIONS):
                readers.enter_context(scope.reader("big"))
            with interrupted_after(0.2):
                scope.reader("big")
        with ExitStack() as readers:
            for _ in range(CONNECTIONS):
                readers.enter_context(scope.reader("big"))


def test_a_writer_left_after_its_end_came_does_not_wait_for_another(daemon: Daemon) -> None:
    with daemon.connect() as client, client.begin(PACKAGE, COMPONENT, "w") as transaction:
        with transaction.writer("big", "blob") as writer:
            writer.write(BIG)
            with stopped(daemon, 0.4), interrupted_after(0.2):
                writer.finish()
            # sealed by now; leaving finds the daemon's answer, not one to the cancellation
            time.sleep(1)
            began = time.monotonic()
        assert time.monotonic() - began < 5
        with pytest.raises(errors.SealcarError):
            transaction.commit()


def test_the_error_that_ends_a_transaction_is_not_hidden_by_a_lost_daemon(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.connect() as client:
        publish(client, {"one": b"1"})

        def fail() -> None:
            with client.begin(PACKAGE, COMPONENT, "w"):
                daemon.kill()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
