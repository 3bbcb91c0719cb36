"""Stores of very many packages, made in no time: for listings, which ask for no key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealcar_server.sealing.fields import b64, unb64
from sealcar_server.store.generation import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path


def fill(store: Path, package: str, count: int) -> None:
    """Have `count` packages beside one, each with that one's manifest, but with a name of its own.

    They can be listed and nothing else: nobody's key was there.

    Args:
        store: its directory; a daemon may be serving it.
        package: that was published there, once.
        count: how many.
    """
    (path,) = (store / package).rglob(MANIFEST)
    generation = path.parent.relative_to(store / package)
    manifest = json.loads(path.read_bytes())
    sealed = manifest["additional_metadata"]["sealcar"]
    pointer = json.loads((store / package / "current").read_bytes())
    texts = unb64(sealed["record"]), unb64(pointer["record"])
    for number in range(count):
        name = f"p{number:05}"
        place = store / name
        (place / generation).mkdir(parents=True, mode=0o700)
        sealed["record"], pointer["record"] = (_named(text, package, name) for text in texts)
        (place / generation / MANIFEST).write_text(json.dumps(manifest))
        (place / "current").write_text(json.dumps(pointer))


def _named(text: bytes, old: str, new: str) -> str:
    return b64(text.replace(f'"name":"{old}"'.encode(), f'"name":"{new}"'.encode(), 1))
