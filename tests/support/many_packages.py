"""Stores of very many packages, made in no time: for listings, which ask for no key."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sealcar_server.store.generation import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path


def fill(store: Path, package: str, count: int) -> None:
    """Have `count` packages beside one, each with the manifest of that one.

    They can be listed and nothing else: the record in the manifest says another name.

    Args:
        store: its directory; a daemon may be serving it.
        package: that was published there, once.
        count: how many.
    """
    (manifest,) = (store / package).rglob(MANIFEST)
    generation = manifest.parent.relative_to(store / package)
    for number in range(count):
        place = store / f"p{number:05}"
        (place / generation).mkdir(parents=True, mode=0o700)
        os.link(manifest, place / generation / MANIFEST)
        os.link(store / package / "current", place / "current")
