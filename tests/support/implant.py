"""Hostile code inside the daemon: what somebody gets who has a package of his own installed there.

`planted` puts it on the daemon's import path. It sleeps until `wake`, tries everything, and says
which attempts the kernel let through.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from support.daemon import Daemon

DONE: Final = "done"
HARMLESS: Final = ("files", "programs", "ways out", "powers")  # if they succeed
_PROGRAM: Final = r"""
import ctypes, errno, json, os, signal, socket, subprocess, sys

told = json.loads(os.environ["IMPLANT"])
libc = ctypes.CDLL(None, use_errno=True)

def attempt(what):
    try:
        what()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except ValueError as error:
        return type(error).__name__
    return "done"

def call(number, *arguments):
    def act():
        if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) < 0:
            raise OSError(ctypes.get_errno(), "")
    return act

def bound(family, kind, address):
    def act():
        with socket.socket(family, kind) as made:
            made.bind(address)
    return act

def connected(family, address):
    def act():
        with socket.socket(family) as made:
            made.connect(address)
    return act

def reading(path):
    return lambda: open(path, "rb").read(1)

def writing(path, mode="wb"):
    return lambda: open(path, mode).close()

def program():
    made = inside + "/program"
    with open(made, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(made, 0o700)
    subprocess.run([made], check=True)

def core():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))

outside, inside, pid = told["outside"], told["inside"], told["pid"]
buffer = ctypes.create_string_buffer(4096)
place = ctypes.addressof(buffer)
ATTEMPTS = {
    "files": {
        "read": reading(outside + "/file"),
        "read a secret of the machine": reading("/etc/shadow"),
        "list": lambda: os.listdir(outside),
        "list all": lambda: os.listdir("/"),
        "write": writing(outside + "/file", "ab"),
        "make": writing(outside + "/new"),
        "truncate": lambda: os.truncate(outside + "/file", 0),
        "remove": lambda: os.unlink(outside + "/file"),
        "make a directory": lambda: os.mkdir(outside + "/folder"),
        "link in": lambda: os.link(outside + "/file", inside + "/linked"),
        "move out": lambda: os.rename(inside + "/own", outside + "/moved"),
        "link by name and read": lambda: (os.symlink(outside + "/file", inside + "/name"),
                                          open(inside + "/name").read()),
        "make a device": lambda: os.mknod(inside + "/device", 0o20600, os.makedev(1, 3)),
        "another's memory": reading(f"/proc/{pid}/mem"),
        "another's environment": reading(f"/proc/{pid}/environ"),
    },
    "programs": {
        "of the machine": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
        "of its own": program,
    },
    "ways out": {
        "connect": connected(socket.AF_INET, ("127.0.0.1", told["port"])),
        "listen": bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", told["free"])),
        "abstract socket": connected(socket.AF_UNIX, "\0" + told["abstract"]),
        "raw packets": bound(17, socket.SOCK_RAW, ("lo", 0)),
        "signal": lambda: os.kill(pid, 0),
    },
    "calls": {
        "ptrace": call(101, 16, pid, 0, 0),
        "process_vm_readv": call(310, pid, 0, 0, 0, 0, 0),
        "process_vm_writev": call(311, pid, 0, 0, 0, 0, 0),
        "pidfd_getfd": call(438, 0, 0, 0),
        "kcmp": call(312, pid, pid, 0, 0, 0),
        "perf_event_open": call(298, place, 0, -1, -1, 0),
        "bpf": call(321, 0, place, 72),
        "userfaultfd": call(323, 1),
        "io_uring_setup": call(425, 8, place),
        "keyctl": call(250, 0, -3, 0),
        "add_key": call(248, place, place, place, 0, -3),
        "request_key": call(249, place, place, 0, -3),
        "mount": call(165, 0, 0, 0, 0, 0),
        "umount2": call(166, place, 0),
        "pivot_root": call(155, place, place),
        "chroot": call(161, place),
        "fsopen": call(430, place, 0),
        "open_tree": call(428, -1, place, 0),
        "unshare": call(272, 0x10000000),
        "setns": call(308, 0, 0),
        "clone into a name space": call(56, 0x10000000 | 17, 0, 0, 0, 0),
        "open_by_handle_at": call(304, -1, place, 0),
        "init_module": call(175, place, 0, place),
        "finit_module": call(313, -1, place, 0),
        "kexec_load": call(246, 0, 0, 0, 0),
        "reboot": call(169, 0, 0, 0, 0),
        "setuid": call(105, 4999),
        "setgroups": call(116, 0, 0),
        "capset": call(126, place, place),
        "dumpable again": call(157, 4, 1, 0, 0, 0),
        "by the numbers of x32": call(0x40000000 | 101, 16, pid, 0, 0),
    },
    "powers": {
        "a core again": core,
        "give a file away": lambda: os.chown(inside + "/own", 4999, -1),
        "read what another user keeps": reading(inside + "/anothers"),
        "go before others": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
        "port below 1024": bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 919)),
    },
}

def wake(signum, frame):
    with open(inside + "/topics") as file:
        topics = json.load(file)
    found = {topic: {name: attempt(what) for name, what in ATTEMPTS[topic].items()}
             for topic in topics}
    with open(inside + "/report.new", "w") as file:
        json.dump(found, file)
    os.rename(inside + "/report.new", inside + "/report")

if "serve" in sys.orig_argv:
    signal.signal(signal.SIGUSR1, wake)
"""


@contextmanager
def planted(folder: Path) -> Iterator[Path]:
    """Have daemons that start in the block carry it; give a directory that none of them needs.

    Args:
        folder: of the daemon to come: it writes to `folder / "d" / "state"`.
    """
    outside, code = folder / "outside", folder / "implant"
    for each in (outside, code):
        each.mkdir()
    (outside / "file").write_text("somebody's own")
    (code / "sitecustomize.py").write_text(_PROGRAM)
    abstract = f"sealcar-{secrets.token_hex(8)}"
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_UNIX) as named,
    ):
        named.bind(f"\0{abstract}")
        named.listen()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        told = {
            "outside": str(outside),
            "inside": str(folder / "d" / "state"),
            "pid": os.getpid(),
            "port": listening.getsockname()[1],
            "free": free,
            "abstract": abstract,
        }
        patch.setenv("IMPLANT", json.dumps(told))
        before = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(code), before))))
        yield outside


def wake(daemon: Daemon, topics: Iterable[str] = HARMLESS) -> dict[str, dict[str, str]]:
    """Have it try all of these topics; return by topic and attempt what came of it."""
    state = daemon.folder / "state"
    (state / "own").write_text("")
    (state / "anothers").write_text("")
    (state / "anothers").chmod(0o600)
    os.chown(state / "anothers", 4999, 4999)
    (state / "topics").write_text(json.dumps(list(topics)))
    os.kill(daemon.pid, signal.SIGUSR1)
    deadline = time.monotonic() + 20
    while not (state / "report").exists():
        assert time.monotonic() < deadline, daemon.log_path.read_text()
        time.sleep(0.02)
    found: dict[str, dict[str, Any]] = json.loads((state / "report").read_text())
    (state / "report").unlink()
    return found
