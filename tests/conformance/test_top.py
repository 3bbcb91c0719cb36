"""`sealcar top`, in a terminal and for scripts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import COMMAND, Daemon, environment, run_command
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

from sealcar.cli.top import seen_between
from sealcar.oversight import Figures

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 3 << 20


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon without a listener for metrics, and one client that is connected and read."""
    daemon = Daemon(tmp_path_factory.mktemp("d"), settings={"metrics.address": "off"})
    with daemon, daemon.connect() as client:
        publish(client, {"blob": varied(SIZE)})
        client.scope(PACKAGE, COMPONENT, VARIANT).read("blob")
        yield daemon


def test_a_script_gets_one_object(used: Daemon) -> None:
    done = run_command("top", "--once", "--json", "--interval", "0.1", "--admin", str(used.admin))
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert (seen["sessions"], seen["transfers"], seen["locked"]) == (1, 0, 0)
    assert seen["payload_bytes"] == {"read": SIZE, "write": SIZE + len(TINY)}
    assert seen["per_second"]["payload_bytes"] == {"read": 0.0, "write": 0.0}
    assert 0 < seen["memory_bytes"] <= seen["memory_limit_bytes"]
    assert seen["key_provider_up"] == {"default": 1.0}
    (client,) = seen["clients"]
    assert (client["pid"], client["uid"]) in {(os.getpid(), os.getuid()), (0, os.getuid())}
    assert client["received"]
    assert PACKAGE not in done.stdout.split()


def test_without_a_terminal_it_prints_one_screen_and_ends(used: Daemon) -> None:
    done = run_command("top", "--interval", "0.1", "--admin", str(used.admin))
    assert done.returncode == 0
    for word in ("serving", "1 clients", "where time goes", "was handed plaintext", "default"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout


def test_in_a_terminal_it_goes_on_until_it_is_interrupted(used: Daemon) -> None:
    shown, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    running = subprocess.Popen(
        [*COMMAND, "top", "--interval", "0.1", "--admin", str(used.admin)],
        env=environment({"TERM": "xterm-256color"}),
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
    )
    os.close(screen)
    with running:
        try:
            told = read_until(shown, "where time goes", times=3)
            assert "\x1b[?1049h" in told  # a screen of its own, which it leaves again
            running.send_signal(signal.SIGINT)
            told += read_until(shown, "\x1b[?1049l")
            assert running.wait(30) == 0
        finally:
            running.kill()
            os.close(shown)
    assert "Traceback" not in told
    assert re.search(r"serving", told)


def test_nobody_there_is_exit_code_4(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("none"))
    assert run_command("top", "--once", "--admin", folder, "--timeout", "0.5").returncode == 4


def test_what_grows_is_told_by_the_second_and_a_restart_is_no_negative_rate() -> None:
    def read(count: float) -> Figures:
        labels = frozenset({("direction", "read"), ("delivery", "ring")})
        return Figures({("sealcar_payload_bytes_total", labels): count}, ())

    assert seen_between(read(100), read(300), 2.0)["per_second"]["payload_bytes"] == {"read": 100}
    assert seen_between(read(300), read(100), 2.0)["per_second"]["payload_bytes"] == {"read": 0}


def read_until(terminal: int, text: str, *, times: int = 1) -> str:
    told = ""
    deadline = time.monotonic() + 30
    while told.count(text) < times:
        assert time.monotonic() < deadline, told
        if not select.select([terminal], [], [], 1)[0]:
            continue
        # EIO: the other end is gone
        with contextlib.suppress(OSError):
            told += os.read(terminal, 65536).decode(errors="replace")
    return told
