"""Builds of the native part, each with its own state, against the real runtime's tables."""

from __future__ import annotations

import ctypes
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from sealcar import native
from sealcar.ort import abi

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.ort.runtime import Untyped

POINTER: Final = ctypes.c_void_p


def private_copy(folder: Path) -> ctypes.CDLL:
    """Return the native part loaded once more, with state that no other test sees."""
    if native.library() is None:
        pytest.skip("sealcar was built without its native part")
    copy = folder / "libsealcar_ort_copy.so"
    shutil.copy(native.PATH, copy)
    return native.load(copy)


def code_and_text(status: int | None) -> tuple[int, str]:
    """Return what a status says, and release it."""
    ort = abi.the_runtime()
    assert status
    code = abi.function(ort.api, abi.Api.GET_ERROR_CODE, ctypes.c_int, POINTER)(status)
    text = abi.function(ort.api, abi.Api.GET_ERROR_MESSAGE, ctypes.c_char_p, POINTER)(status)
    abi.function(ort.api, abi.Api.RELEASE_STATUS, None, POINTER)(status)
    return code, text.decode()


def entry(library: ctypes.CDLL, name: str, *arguments: Untyped) -> Untyped:
    """Return a function of a library that returns a status."""
    return ctypes.CFUNCTYPE(POINTER, *arguments)((name, library))
