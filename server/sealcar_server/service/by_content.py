"""What bytes come to, remembered by their SHA-256: it can't be wrong, wherever they lie."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 16_384
_T = TypeVar("_T")


class ByContent(Generic[_T]):
    """The last ones that were asked for; safe to share between threads.

    Args:
        make: says what bytes come to, from them alone. What it refuses it is asked again.
        most: that are remembered.
    """

    def __init__(self, make: Callable[[bytes], _T], most: int = _MOST) -> None:
        self._make, self._most = make, most
        self._known: OrderedDict[bytes, _T] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, data: bytes) -> _T:
        """Return what bytes come to; raises as what makes it."""
        sha256 = hashlib.sha256(data).digest()
        with self._lock:
            if sha256 in self._known:
                self._known.move_to_end(sha256)
                return self._known[sha256]
        made = self._make(data)
        with self._lock:
            self._known[sha256] = made
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return made
