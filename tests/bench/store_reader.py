"""A program: what a client does with a store, however many packages are in it.

`python store_reader.py SOCKET list`: lists all packages; what lists is imported and connected.
`python store_reader.py SOCKET read`: opens one, and reads a small payload of it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import child
from support.payload_packages import COMPONENT, PACKAGE, VARIANT

import sealcar
import sealcar.client

LISTED: Final = "all listed"
OPENED: Final = "one opened"
FIRST: Final = "first byte of it"


def main(socket: str, role: str) -> None:
    """Be connected, and time it."""
    client = sealcar.connect(socket)
    client.state()
    if role == "list":
        # nothing is called so: it is only asked
        assert not list(client.catalogue.list("nothing-"))

    def work() -> tuple[dict[str, float], object]:
        begun = time.perf_counter()
        if role == "list":
            found: object = list(client.catalogue.list())
            return {LISTED: time.perf_counter() - begun}, found
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        scope.open()
        opened = time.perf_counter() - begun
        found = scope.read("small")
        return {OPENED: opened, FIRST: time.perf_counter() - begun}, found

    child.answer(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
