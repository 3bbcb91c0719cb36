"""How fast blobs move between an application and the daemon."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sealcar import Scope
    from sealcar.client import Client

SIZE: Final = 64 << 20
ROUNDS: Final = 3
_NAME: Final = "speed.bin"


@dataclass(frozen=True)
class Speed:
    """Gigabytes a second, of a blob of that many bytes."""

    size: int
    read: float
    write: float


def measure(client: Client, compiled: Scope) -> Speed:
    """Seal and open one large blob of random bytes a few times; return the medians.

    It goes into a variant of its own, beside the compiled one's payloads: no variant is without a
    model, and no model without its blobs.
    """
    others = [(each.name, compiled.read(each.name), each.kind) for each in compiled.payloads]
    data = os.urandom(SIZE)
    target = bytearray(SIZE)
    writes, reads = [], []
    for _ in range(ROUNDS):
        with client.begin(compiled.package, compiled.component, "speed") as transaction:
            for other in others:
                transaction.write(*other)
            begun = time.perf_counter()
            transaction.write(_NAME, data, "blob")
            writes.append(time.perf_counter() - begun)
            scope = transaction.commit()
        begun = time.perf_counter()
        with scope.reader(_NAME) as reader:
            reader.read_into(target)
        reads.append(time.perf_counter() - begun)
    return Speed(
        size=SIZE,
        read=SIZE / statistics.median(reads) / 1e9,
        write=SIZE / statistics.median(writes) / 1e9,
    )
