"""What is taken out of a store: gone at once for readers, then file by file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sealcar_server.store.failure import storing
from sealcar_server.store.generation import GENERATIONS

if TYPE_CHECKING:
    from sealcar_server.store.area import StagingArea
    from sealcar_server.store.directory import Directory


def remove_generation(root: Directory, area: StagingArea, place: tuple[str, str, int]) -> None:
    """Remove a generation: name, version and number.

    It is moved to where unfinished work lies first, so that who is killed leaves no half of one.
    Files that somebody has open stay readable to him; files that other generations share stay.

    Raises:
        NotFoundError: there is none of that number.
        StorageError: it can't be removed.
    """
    name, version, number = place
    label, claimed = area.claim()
    with claimed:
        try:
            with root.enter(name, version, GENERATIONS) as generations:
                with storing(f"removing generation {number}"):
                    os.rename(str(number), label, src_dir_fd=generations.fd, dst_dir_fd=claimed.fd)
                generations.sync()
        finally:
            with area.enter() as staging:
                staging.remove(label)
