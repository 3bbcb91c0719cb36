"""Root's powers, given up for good.

A daemon that runs as a user of its own has none; one that was started by root keeps root's files,
and nothing else of root.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sealcar_server.hardening import kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

_PR_CAPBSET_READ: Final = 23
_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT: Final = 47
_AMBIENT_CLEAR_ALL: Final = 4
_VERSION: Final = 0x20080522  # of capset's structures, with 64 bits of capabilities
_MOST: Final = 64


def drop(groups: Iterable[int]) -> None:
    """Give up every capability, and every way to get one back.

    Args:
        groups: that sockets will be given to: whoever may join them needs no power for it later.

    Raises:
        OSError: the kernel refused.
    """
    missing = {*groups} - {os.getegid(), *os.getgroups()}
    if missing:
        # who may not is told so when the socket is made
        with suppress(PermissionError):
            os.setgroups([*os.getgroups(), *sorted(missing)])
    for number in range(_MOST):
        try:
            if kernel.prctl(_PR_CAPBSET_READ, number):
                kernel.prctl(_PR_CAPBSET_DROP, number)
        except PermissionError:
            # who has none can't give up the bound either; without new privileges it gives nothing
            break
        except OSError:
            # above the last one that this kernel knows
            break
    kernel.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    kernel.capset(struct.pack("=Ii", _VERSION, 0), bytes(24))
