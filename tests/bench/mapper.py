"""A program: maps the payload "blob" as a shared segment, and reads every byte of it once.

`python mapper.py SOCKET`: to touch is to read, since an untouched mapping is address space and
nothing more.
"""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import child
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

import sealcar
import sealcar.client

AVAILABLE: Final = "available"
TOUCHED: Final = "every byte touched"
_PIECE: Final = 1 << 20


def main(socket: str) -> None:
    """Be ready for one mapping, and time it."""
    scope = sealcar.connect(socket).scope(PACKAGE, COMPONENT, VARIANT)
    # neither key nor scope nor connection is what is measured
    scope.read("model.onnx")
    scratch = ctypes.create_string_buffer(_PIECE)

    def work() -> tuple[dict[str, float], object]:
        begun = time.perf_counter()
        mapped = scope.map("blob", shared=True)
        available = time.perf_counter() - begun
        for at in range(0, mapped.size, _PIECE):
            ctypes.memmove(scratch, mapped.address + at, min(_PIECE, mapped.size - at))
        return {AVAILABLE: available, TOUCHED: time.perf_counter() - begun}, mapped

    child.answer(work)


if __name__ == "__main__":
    main(sys.argv[1])
