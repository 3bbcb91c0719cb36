"""A daemon under a profile for containers, which libseccomp turns into a filter as runtimes do."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Final

from support.daemon import Daemon

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM: Final = """
import ctypes, json, os, sys

ALLOW, FAIL = 0x7FFF0000, 0x00050000
OPERATORS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}

class Condition(ctypes.Structure):
    _fields_ = (("argument", ctypes.c_uint), ("operator", ctypes.c_int),
                ("value", ctypes.c_uint64), ("second", ctypes.c_uint64))

def action(name, error):
    return ALLOW if name == "SCMP_ACT_ALLOW" else FAIL | error

def checked(code):
    if code < 0:
        raise OSError(-code, os.strerror(-code))

library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
library.seccomp_rule_add_array.argtypes = (
    ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
library.seccomp_load.argtypes = (ctypes.c_void_p,)
with open(sys.argv[1]) as file:
    profile = json.load(file)
default = action(profile["defaultAction"], profile["defaultErrnoRet"])
filter = library.seccomp_init(ctypes.c_uint32(default))
for rule in profile["syscalls"]:
    conditions = [
        Condition(one["index"], OPERATORS[one["op"]], one["value"], one.get("valueTwo", 0))
        for one in rule.get("args", ())
    ]
    array = (Condition * len(conditions))(*conditions)
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number != -1:  # of a later library
            what = action(rule["action"], rule.get("errnoRet", 0))
            checked(library.seccomp_rule_add_array(filter, what, number, len(array), array))
checked(library.seccomp_load(filter))
os.execv(sys.argv[2], sys.argv[2:])
"""


def missing() -> str:
    """Return why it can't be done here; empty if it can."""
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return "needs libseccomp: apt-get install libseccomp2"
    return ""


class ProfiledDaemon(Daemon):
    """A daemon under a profile; its capabilities are the container's business.

    Args:
        tmp_path: where it is made.
        profile: the file.
    """

    def __init__(self, tmp_path: Path, profile: Path) -> None:
        self._profile = profile
        super().__init__(tmp_path, settings={"hardening.capabilities": "off"})

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return [sys.executable, "-c", _PROGRAM, str(self._profile), *super().command()]
