"""What decides the figures of a payload beside the way that it is read: told with each of them."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from typing import Final

from bench.bulk import Bulk

from sealcar.benching.machine import affinity, native_compiler

ALONE: Final = "one"


def of_payload(size: int) -> dict[str, str]:
    """Return them of a payload of so many bytes, which a client reads through the daemon."""
    workers = len(os.sched_getaffinity(0))
    return {
        "affinity": affinity(),
        "threads": f"{ALONE} in the client; {workers} workers of the daemon, one a core",
        "optimisation": "no session is made",
        "native part's compiler": _compiler(),
        "python's compiler": platform.python_compiler(),
        "payload": f"made for the run, the same in each; SHA-256 {digest(size)}",
    }


@cache
def digest(size: int) -> str:
    """Return the SHA-256 of a payload's bytes."""
    found = hashlib.sha256()
    for chunk in Bulk("", size).chunks():
        found.update(chunk)
    return found.hexdigest()


_compiler = cache(native_compiler)
