"""A check of a large package survives the daemon's end, and an interruption by its user."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pytest
from support.daemon import COMMAND, Daemon, environment, run_command
from support.payload_packages import PACKAGE, PlannedBytes, PlannedPackage, varied
from support.processes import stopped

from sealcar import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.catalogue import Progress

COUNT = 24
SIZE = 8 << 20
TOTAL = COUNT * SIZE


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("resumed")) as daemon:
        data = varied(SIZE)
        payloads = tuple(PlannedBytes(f"w{at:02}", "blob", data) for at in range(COUNT))
        with daemon.connect() as client:
            client.catalogue.import_(PlannedPackage(payloads))
        yield daemon


@contextmanager
def slowed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a process work a tenth of the time, so that what it does isn't over at once."""
    over = threading.Event()

    def brake() -> None:
        while not over.wait(0.005):
            with stopped(process):
                time.sleep(0.05)

    thread = threading.Thread(target=brake)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_check_goes_on_by_itself_once_the_daemon_is_back(big: Daemon) -> None:
    steps: list[Progress] = []
    restarting = threading.Thread(target=big.start)

    def watch(step: Progress) -> None:
        steps.append(step)
        if step.done > 3 * SIZE and restarting.ident is None:
            big.kill()
            restarting.start()

    with big.connect(timeout=20) as client:
        found = client.catalogue.verify(PACKAGE, progress=watch)
    restarting.join()
    assert (found.payloads, found.size) == (COUNT, TOTAL)
    # at most the payload that was cut is read again
    assert all(steps[at].done > steps[at - 1].done - SIZE for at in range(1, len(steps)))


def test_a_daemon_that_stays_away_ends_the_check_with_a_token_to_go_on(big: Daemon) -> None:
    tokens: list[str] = []

    def watch(step: Progress) -> None:
        tokens.append(step.resume_token)
        if step.done > 2 * SIZE:
            big.kill()

    begun = time.monotonic()
    with big.connect(timeout=1) as client, pytest.raises(errors.UnavailableError):
        client.catalogue.verify(PACKAGE, progress=watch)
    assert time.monotonic() - begun < 10
    big.start()
    rest: list[Progress] = []
    with big.connect() as client:
        found = client.catalogue.verify(PACKAGE, resume=tokens[-1], progress=rest.append)
    assert found.size == TOTAL
    assert rest[0].done > SIZE


def test_an_interrupted_command_prints_the_one_that_goes_on(big: Daemon) -> None:
    where = environment({"SEALCAR_SOCKET": str(big.socket), "COLUMNS": "200"})
    ours, theirs = pty.openpty()
    assert big.process
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen([*COMMAND, "verify", PACKAGE], env=where, stderr=theirs)
        os.close(theirs)
        told = b""
        with slowed(big.process):
            while b"w0" not in told:
                told += terminal.read(4096)
        with stopped(big.process):
            process.send_signal(signal.SIGINT)
            told += b"".join(_rest(terminal))
            assert process.wait(30) == 130
    (line,) = re.findall(r"to go on: sealcar ([^\r\n]*)", told.decode())
    done = run_command(*line.split(), SEALCAR_SOCKET=str(big.socket))
    assert done.returncode == 0, done.stderr
    assert f"{COUNT} payloads" in done.stdout


def _rest(terminal: IO[bytes]) -> Iterator[bytes]:
    try:
        while data := terminal.read(4096):
            yield data
    except OSError:
        return  # what Linux says once nobody has the other end any more
