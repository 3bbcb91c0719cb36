"""The address of a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from sealcar.ort.callbacks import Buffer

View: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


def view(buffer: Buffer) -> tuple[View, int]:
    """Return a buffer as an array, which has its address and keeps it alive, and its length."""
    array = np.frombuffer(buffer, np.uint8)
    return array, array.nbytes
