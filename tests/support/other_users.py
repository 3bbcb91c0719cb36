"""Daemons and programs that run as a user without root's powers, as they would in production."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from support.daemon import COMMAND, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from support.daemon import Daemon

_LIBRARY: Final = """
import sys, sealcar_server.app, sealcar_server.cli.serve, sealcar.cli.commands, encodings.idna
skip = ("antigravity", "this", "__main__", "__mp_main__")
print(",".join(name for name, module in sys.modules.items() if name.split(".")[0] in
    sys.stdlib_module_names and name not in skip and getattr(module, "__file__", None)))
"""
# becomes the daemon's uid first, as a service manager would, then runs it
_AS_UID: Final = """
import importlib, os, sys
# the interpreter's own library may lie where only root can read
for name in sys.argv.pop(1).split(","):
    importlib.import_module(name)
import sealcar.cli.commands, sealcar_server.cli.serve
from sealcar.cli.main import main
uid = int(sys.argv.pop(1))
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
main()
"""


@contextmanager
def running_as(daemon: Daemon, uid: int) -> Iterator[subprocess.Popen[str]]:
    """Have a daemon serve as this uid, which gets all its files; it must end well.

    Args:
        daemon: made and not started, below a directory that all can enter.
        uid: of the daemon.
    """
    for path in (daemon.folder, *daemon.folder.rglob("*")):
        os.chown(path, uid, uid)
    library = subprocess.run(
        [sys.executable, "-c", _LIBRARY], capture_output=True, text=True, check=True
    ).stdout.strip()
    options = daemon.command()[len(COMMAND) :]
    with subprocess.Popen(
        [sys.executable, "-c", _AS_UID, library, str(uid), *options],
        cwd=daemon.folder,
        # it can't start once more as this uid, which may not read the interpreter
        env=environment({"LD_BIND_NOW": "1"}),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        seen = ""
        while '"serving"' not in seen:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        try:
            yield process
        finally:
            process.terminate()
            process.stderr.read()
    assert process.returncode == 0


def run_as(uid: int, program: str, *arguments: str, pass_fds: Iterable[int] = ()) -> str:
    """Run Python as this uid, and return what it prints."""
    # the interpreter's own library may lie where only root can read
    become = "import ctypes, json, os, resource, socket, sys, time, encodings.idna\n"
    become += f"os.setgroups([]); os.setresgid({uid}, {uid}, {uid})\n"
    become += f"os.setresuid({uid}, {uid}, {uid})\n"
    done = subprocess.run(
        [sys.executable, "-c", become + program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        pass_fds=tuple(pass_fds),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
