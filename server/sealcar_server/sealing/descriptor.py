"""A file descriptor that several threads use: it is closed when the last of them is done.

Closed under a thread that is about to write, its number could by then be another file's.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from sealcar.errors import WrongStateError

if TYPE_CHECKING:
    from types import TracebackType


class Descriptor:
    """Owns a descriptor; `with` lends its number.

    Args:
        fd: belongs to this object from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._users = 0
        self._closed = False
        self._lock = threading.Lock()

    def close(self) -> None:
        """Lend it to nobody any more, and close it when nobody uses it. Repeating it is fine."""
        with self._lock:
            unused = not self._closed and self._users == 0
            self._closed = True
        if unused:
            os.close(self._fd)

    def __enter__(self) -> int:
        """Return the number.

        Raises:
            WrongStateError: it is closed.
        """
        with self._lock:
            if self._closed:
                raise WrongStateError("the sealed file is closed")
            self._users += 1
        return self._fd

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._users -= 1
            unused = self._closed and self._users == 0
        if unused:
            os.close(self._fd)
