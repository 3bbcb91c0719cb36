"""Whether another process still has a memory that was handed to it.

What is mapped can't be taken back. So the memory stays counted until the kernel says that nobody
has it any more.
"""

from __future__ import annotations

import fcntl
import signal


def held_elsewhere(descriptor: int) -> bool:
    """Tell whether anybody else has a memory open or mapped. Where the kernel can't say: no.

    Args:
        descriptor: of the only open file that this process has of it, read-only.
    """
    # Whoever opens the file during the lease has the kernel signal this process: with SIGIO,
    # which would end it, if not told otherwise before each lease. SIGURG is ignored.
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    try:
        # granted to the only one who has a file open
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
