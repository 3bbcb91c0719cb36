"""Keeps the pages of segments out of the swap, as far as the system lets this process."""

from __future__ import annotations

import ctypes
import resource
import threading
from typing import Final

import structlog

from sealcar_server.sealing.memory import LIBC

_log: Final = structlog.get_logger("sealcar.transfer")
# what root keys may need: a page each
_FOR_KEYS: Final = 16 << 20


class PageLocks:
    """Locks memory until it is unmapped. Thread-safe.

    Args:
        for_keys: bytes that are left of the system's limit, for root keys, which come first.
    """

    def __init__(self, for_keys: int = _FOR_KEYS) -> None:
        self._for_keys = for_keys
        self._lock = threading.Lock()
        self._locked = 0
        self._told = False

    def take(self, address: int, size: int) -> bool:
        """Lock mapped pages; False: they may be swapped, and the log says why."""
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        with self._lock:
            if soft != resource.RLIM_INFINITY and self._locked + size > soft - self._for_keys:
                self._tell(f"RLIMIT_MEMLOCK is {soft} bytes, of which keys need {self._for_keys}")
                return False
            self._locked += size
        if LIBC.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size)):
            with self._lock:
                self._locked -= size
                self._tell(f"the system refused: errno {ctypes.get_errno()}")
            return False
        return True

    def give_back(self, size: int) -> None:
        """Count pages no more that were unmapped."""
        with self._lock:
            self._locked -= size

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("shared segments may be swapped: they can't be locked", reason=reason)
