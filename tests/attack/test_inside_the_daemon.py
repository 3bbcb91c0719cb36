"""What processes of the machine see of the inside of a daemon: as its own user, and as another."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from errno import EACCES, EPERM
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.other_users import run_as, running_as

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root
DAEMON, STRANGER = 4201, 4202
REFUSED = (EACCES, EPERM)
# tries what a debugger, a dumper of memory and a thief of descriptors would; without root's powers
LOOK = """
pid = int(sys.argv[1])
def attempt(what):
    try:
        what()
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
class Span(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))
buffer = ctypes.create_string_buffer(64)
mine = Span(ctypes.addressof(buffer), 1)
place = ctypes.byref(mine)
def call(name, *arguments):
    def act():
        libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        if getattr(libc, name)(*arguments) < 0:
            raise OSError(ctypes.get_errno(), "")
    return act
def number(number, *arguments):
    return call("syscall", ctypes.c_long(number), *map(ctypes.c_long, arguments))
def path(name, act):
    return lambda: act(f"/proc/{pid}/{name}")
def read(name):
    return path(name, lambda path: open(path, "rb").read(1))
handle = os.pidfd_open(pid)
print(json.dumps({name: attempt(what) for name, what in {
    **{name: read(name) for name in ("environ", "maps", "smaps", "pagemap", "auxv", "syscall")},
    "mem": path("mem", open),
    "mem of its thread": path(f"task/{pid}/mem", open),
    "write mem": path("mem", lambda path: open(path, "r+b")),
    "dump all": path("coredump_filter", lambda path: open(path, "w").write("0xff")),
    "list descriptors": path("fd", os.listdir),
    "a descriptor": read("fd/0"),
    "map_files": path("map_files", os.listdir),
    "root": path("root", os.listdir),
    "exe": path("exe", os.readlink),
    "cwd": path("cwd", os.readlink),
    "attach": call("ptrace", 16, pid, None, None),
    "seize": call("ptrace", 0x4206, pid, None, None),
    "process_vm_readv": call("process_vm_readv", pid, place, 1, place, 1, 0),
    "process_vm_writev": call("process_vm_writev", pid, place, 1, place, 1, 0),
    "pidfd_getfd": number(438, handle, 0, 0),
    "pidfd_getfd of a socket": number(438, handle, 5, 0),
    "let it dump": lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (1 << 20, 1 << 20)),
}.items()}))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that other uids can enter."""
    with tempfile.TemporaryDirectory(prefix="sealcar-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def attempts(daemon: Daemon, uid: int) -> dict[str, int]:
    """Return what came of each attempt of this uid: 0 if it succeeded."""
    with running_as(daemon, DAEMON) as process:
        found: dict[str, int] = json.loads(run_as(uid, LOOK, str(process.pid)))
        assert process.poll() is None
    return found


def test_a_process_of_the_same_user_can_not_look_inside(open_folder: Path) -> None:
    found = attempts(Daemon(open_folder), DAEMON)
    assert {name: error for name, error in found.items() if error not in REFUSED} == {}


def test_a_process_of_another_user_can_not_look_inside(open_folder: Path) -> None:
    found = attempts(Daemon(open_folder), STRANGER)
    assert {name: error for name, error in found.items() if error not in REFUSED} == {}


def test_the_same_attempts_succeed_on_a_process_that_is_not_hardened(open_folder: Path) -> None:
    """So that their failing means something."""
    become = f"import ctypes, os, time; os.setresgid({DAEMON}, {DAEMON}, {DAEMON})\n"
    become += f"os.setresuid({DAEMON}, {DAEMON}, {DAEMON})\n"
    # to change uids takes what made it traceable
    become += "ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)\n"
    program = f"{become}print('there', flush=True)\ntime.sleep(60)\n"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=open_folder
    ) as plain:
        assert plain.stdout
        plain.stdout.readline()
        found = json.loads(run_as(DAEMON, LOOK, str(plain.pid)))
        plain.kill()
    for name in ("mem", "environ", "maps", "list descriptors", "pidfd_getfd", "attach"):
        assert found[name] == 0, name
