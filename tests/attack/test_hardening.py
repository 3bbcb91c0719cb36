"""What the daemon gives up at its start, looked at from outside."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
from errno import EACCES, EPERM
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from support.daemon import COMMAND, Daemon, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

SAME_UID = 4201
# runs as the daemon's own uid, without root's powers, and tries what a debugger would
LOOK = """
import ctypes, json, os, sys
pid = int(sys.argv[1])
os.setgroups([]); os.setresgid(4201, 4201, 4201); os.setresuid(4201, 4201, 4201)
def attempt(what):
    try:
        what()
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
def ptrace():
    if libc.ptrace(16, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "")
def read(name):
    return lambda: open(f"/proc/{pid}/{name}", "rb").read(1)
print(json.dumps({name: attempt(what) for name, what in {
    "mem": read("mem"), "environ": read("environ"), "maps": read("maps"),
    "fd": lambda: os.listdir(f"/proc/{pid}/fd"), "ptrace": ptrace,
}.items()}))
"""
LIBRARY = """
import sys, sealcar_server.app, sealcar_server.cli.serve, sealcar.cli.commands, encodings.idna
skip = ("antigravity", "this", "__main__", "__mp_main__")
print(",".join(name for name, module in sys.modules.items() if name.split(".")[0] in
    sys.stdlib_module_names and name not in skip and getattr(module, "__file__", None)))
"""
# becomes the daemon's uid first, as a service manager would, then runs it
AS_UID = """
import importlib, os, sys
# the interpreter's own library may lie where only root can read
for name in sys.argv.pop(1).split(","):
    importlib.import_module(name)
import sealcar.cli.commands, sealcar_server.cli.serve
from sealcar.cli.main import main
os.setgroups([]); os.setresgid(4201, 4201, 4201); os.setresuid(4201, 4201, 4201)
main()
"""


def status_of(daemon: Daemon) -> dict[str, str]:
    text = Path(f"/proc/{daemon.pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


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


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that other uids can enter."""
    with tempfile.TemporaryDirectory(prefix="sealcar-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.root
def test_a_process_of_the_same_user_can_not_look_inside(open_folder: Path) -> None:
    daemon = Daemon(open_folder)
    for path in (daemon.folder, *daemon.folder.rglob("*")):
        os.chown(path, SAME_UID, SAME_UID)
    library = subprocess.run(
        [sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=True
    ).stdout.strip()
    options = daemon.command()[len(COMMAND) :]
    with subprocess.Popen(
        [sys.executable, "-c", AS_UID, library, *options],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        _wait_for(process.stderr, '"serving"')
        script = [sys.executable, "-c", LOOK, str(process.pid)]
        look = subprocess.run(script, capture_output=True, text=True, check=True)
        process.terminate()
        process.stderr.read()
    assert process.returncode == 0
    refused = {"mem": EACCES, "environ": EACCES, "maps": EACCES, "fd": EACCES, "ptrace": EPERM}
    assert json.loads(look.stdout) == refused


def _wait_for(stream: IO[str], text: str) -> None:
    seen = ""
    while text not in seen:
        line = stream.readline()
        assert line, seen
        seen += line
