"""A fresh process's end of a sample; `fresh.py` is the other end.

Importing, connecting and whatever else isn't measured comes before `answer`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def answer(work: Callable[[], tuple[Mapping[str, float], object]]) -> None:
    """Be ready, work when told to, and say what it took.

    Args:
        work: returns the seconds from its beginning to each stage, and what has to live until the
            parent has looked at this process's memory.
    """
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if sys.stdin.readline():
        stages, kept = work()
        sys.stdout.write(json.dumps(dict(stages)) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        del kept
