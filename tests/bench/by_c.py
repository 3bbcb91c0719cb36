"""A blob from the daemon into memory, in turns by the client in C and by the one in Python."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.blob import OURS, Blob
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.parts import Part, Setting
from bench.reader import STAGE
from bench.rows import Row
from support import c_programs
from support.daemon import Daemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

if TYPE_CHECKING:
    from collections.abc import Mapping

BY_C: Final = "sealcar, by the client in C"


def _run(setting: Setting) -> list[Row]:
    if shutil.which("cc") is None:
        return [Row(BY_C, STAGE, skipped="no C compiler is installed")]
    program = str(c_programs.program("c_reader"))
    with Daemon(setting.folder) as daemon:
        (found,) = Blob(setting.folder, daemon, setting.size).ways([OURS])
        python = replace(found, reference=OURS)
        variables = {"SEALCAR_SOCKET": str(daemon.socket)}
        command = (program, PACKAGE, COMPONENT, VARIANT, STAGE)
        return compare([_way(command, daemon, variables, python), python], setting)


def _way(
    command: tuple[str, ...], daemon: Daemon, variables: Mapping[str, str], python: Way
) -> Way:
    size = python.program.size
    program = Program(command, size, {"daemon": daemon.pid}, variables=variables)
    return Way(BY_C, program, OURS, python.traffic, python.conditions)


PARTS: Final = (
    Part(
        "c",
        "a blob into memory, by the client in C and by the one in Python",
        lambda setting: 5 + (setting.rounds + 1) * 2 * (0.5 + 1.2 * setting.size / 2**30),
        _run,
    ),
)
