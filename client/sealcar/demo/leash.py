"""A child process that can't outlive the demonstration, whatever ends it.

    python -m sealcar.demo.leash PARENT serve --config FILE

runs that command of sealcar; `hold` does the same for a program of the demonstration itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final, TextIO

_PR_SET_PDEATHSIG: Final = 1


def hold(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it went before we asked
        sys.exit(signal.SIGTERM)


def answers_only() -> TextIO:
    """Keep standard output for answers: plugins print there, and are sent to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


if __name__ == "__main__":
    hold(int(sys.argv[1]))
    from sealcar.cli.main import run

    sys.exit(run(sys.argv[2:]))
