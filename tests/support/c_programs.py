"""Programs in C against client/c, compiled when a test first needs them, and how they are run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT: Final = Path(__file__).parents[2]
LIBRARY: Final = _ROOT / "client" / "c" / "sealcar.c"
_PROGRAMS: Final = _ROOT / "tests" / "native"
_FOLDERS: Final = tuple(f"-I{_ROOT / 'client' / each}" for each in ("c", "sealcar/native"))
_FLAGS: Final = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", *_FOLDERS)
_SANITIZERS: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
VALGRIND: Final = (
    "valgrind",
    "--quiet",
    "--error-exitcode=99",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--show-leak-kinds=definite",
)


@cache
def program(name: str, *, sanitized: bool = False, inside: bool = False) -> Path:
    """Return a program of tests/native; skip where it can't be built.

    Args:
        name: of the program.
        sanitized: for addresses and undefined behaviour.
        inside: it includes the client's source itself, and isn't linked with it.
    """
    made = _folder() / f"{name}{'-sanitized' if sanitized else ''}"
    sources = (str(_PROGRAMS / f"{name}.c"), *(() if inside else (str(LIBRARY),)))
    flags = (*_FLAGS, *(_SANITIZERS if sanitized else ()))
    _compile(*flags, "-o", str(made), *sources, "-ldl", "-lpthread", sanitized=sanitized)
    return made


@cache
def shared_library() -> Path:
    """Return the client as a shared library, built as its source says."""
    made = _folder() / "libsealcar.so"
    flags = ("-fPIC", "-shared")
    _compile(*_FLAGS, *flags, "-o", str(made), str(LIBRARY), sanitized=False)
    return made


def call(
    socket: Path,
    *arguments: str,
    data: bytes = b"",
    sanitized: bool = False,
    before: Sequence[str] = (),
    **extra: str,
) -> subprocess.CompletedProcess[bytes]:
    """Run c_caller to its end."""
    return run(
        [*before, str(program("c_caller", sanitized=sanitized)), *arguments],
        socket,
        data=data,
        **extra,
    )


def run(
    command: Sequence[str], socket: Path, *, data: bytes = b"", **extra: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a program against the daemon that listens there."""
    return subprocess.run(
        command,
        env=environment({"ASAN_OPTIONS": "exitcode=99", "SEALCAR_SOCKET": str(socket), **extra}),
        input=data,
        capture_output=True,
        timeout=120,
        check=False,
    )


def _compile(*arguments: str, sanitized: bool) -> None:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("no C compiler")
    done = subprocess.run([*compiler, *arguments], capture_output=True, text=True, check=False)
    if done.returncode and sanitized and "asan" in done.stderr:
        pytest.skip("this compiler has no address sanitizer")
    assert done.returncode == 0, done.stderr


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="sealcar-c-"))
