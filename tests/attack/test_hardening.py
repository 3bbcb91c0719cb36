"""What the daemon gives up at its start, looked at from outside."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator


def status_of(daemon: Daemon) -> dict[str, str]:
    text = Path(f"/proc/{daemon.pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


BEGINS_ANEW = """
import os, sys
from sealcar.errors import ResourceError
from sealcar_server.hardening.process import link_at_once
if "taken away" in sys.argv:  # as ld.so does where a program has more rights than its caller
    os.environ.pop("LD_BIND_NOW", None)
try:
    link_at_once()
except ResourceError as error:
    print(error.message)
else:
    print(os.environ["LD_BIND_NOW"], "SEALCAR_BEGUN_ANEW" in os.environ)
"""


def begun(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_BIND_NOW"}
    command = [sys.executable, "-c", BEGINS_ANEW, *arguments]
    return subprocess.check_output(command, env=environment, text=True, timeout=10)


def test_a_daemon_begins_anew_once_and_never_over_and_over() -> None:
    assert begun() == "1 False\n"
    assert "LD_BIND_NOW doesn't reach the daemon" in begun("taken away")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("running")) as daemon:
        yield daemon


def test_no_core_is_ever_written(running: Daemon) -> None:
    assert resource.prlimit(running.pid, resource.RLIMIT_CORE) == (0, 0)


def test_files_are_for_nobody_else(running: Daemon) -> None:
    assert status_of(running)["Umask"] == "0077"
    for path in running.folder.rglob("*"):
        if not path.is_socket():
            assert not path.stat().st_mode & 0o077, path


def test_the_sockets_modes_are_those_of_the_settings(running: Daemon) -> None:
    modes = {
        running.socket / "grpc.sock": 0o600,
        running.socket / "data.sock": 0o600,
        running.admin / "admin.sock": 0o600,
        running.folder / "state" / "inner" / "grpc.sock": 0o600,
    }
    found = {path: path.stat() for path in modes}
    assert all(stat.S_ISSOCK(status.st_mode) for status in found.values())
    assert {path: stat.S_IMODE(status.st_mode) for path, status in found.items()} == modes


@pytest.mark.root
def test_the_sockets_group_is_that_of_the_settings(tmp_path: Path) -> None:
    settings = {"listen.default.mode": "0660", "listen.default.group": "4321"}
    with Daemon(tmp_path, settings=settings) as daemon:
        for name in ("grpc.sock", "data.sock"):
            status = (daemon.socket / name).stat()
            assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, 4321)


def test_no_descriptor_is_inherited_by_a_child(running: Daemon) -> None:
    for entry in Path(f"/proc/{running.pid}/fdinfo").iterdir():
        lines = entry.read_text().split("\n")
        flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
        if int(entry.name) > 2:
            assert int(flags, 8) & os.O_CLOEXEC, lines


def test_the_memory_that_holds_keys_is_neither_dumped_nor_inherited(running: Daemon) -> None:
    smaps = Path(f"/proc/{running.pid}/smaps").read_text()
    flags = [set(line.split()[1:]) for line in smaps.splitlines() if line.startswith("VmFlags:")]
    assert any({"dd", "wf"} <= each for each in flags)


def test_the_key_is_not_on_the_command_line_or_in_the_environment(running: Daemon) -> None:
    secret = (running.folder / "kek").read_bytes().split()[-1]
    for name in ("cmdline", "environ"):
        assert secret not in Path(f"/proc/{running.pid}/{name}").read_bytes()
    assert secret not in running.log_path.read_bytes()


def test_grpc_is_not_imported_before_the_process_is_hardened() -> None:
    program = (
        "import sys, sealcar, sealcar.cli.main, sealcar.cli.commands, sealcar_server.cli.serve\n"
        "assert 'grpc' not in sys.modules\n"
        "import grpc\n"
        "sealcar_server.hardening.process.harden()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "InternalError: grpc was imported before the process was hardened" in done.stderr
