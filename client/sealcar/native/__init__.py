"""The native part: one small library in C, loaded by absolute path from this package only.

It is there where a C compiler was when the package was built; `library` returns None otherwise.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Final

from sealcar.errors import RuntimeSupportError

PATH: Final = Path(__file__).resolve().parent / "libsealcar_ort.so"

_POINTER: Final = ctypes.c_void_p
_PROTOTYPES: Final = {
    "sealcar_captured_base": (_POINTER, ()),
    "sealcar_captured_options": (_POINTER, ()),
    "sealcar_bind": (ctypes.c_int, (_POINTER,) * 5),
    "sealcar_allocate": (_POINTER, (_POINTER, ctypes.c_size_t)),
    "sealcar_ep_target": (
        ctypes.c_int,
        (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
    ),
    "sealcar_ep_alive": (ctypes.c_size_t, (ctypes.c_char_p,)),
    "sealcar_ep_support": (ctypes.c_int, (ctypes.c_char_p,)),
}


@cache
def library() -> ctypes.CDLL | None:
    """Return the loaded library, or None where the package was built without it.

    Raises:
        RuntimeSupportError: it is there and can't be loaded.
    """
    return load(PATH) if PATH.is_file() else None


def load(path: Path) -> ctypes.CDLL:
    """Load a build of the library.

    Raises:
        RuntimeSupportError: it can't be loaded, or isn't this version's.
    """
    try:
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise RuntimeSupportError(
            f"sealcar's native part can't be loaded ({error}); install sealcar again"
        ) from error
    return loaded
