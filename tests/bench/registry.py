"""All parts, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench import (
    blob,
    bucket,
    by_c,
    crowds,
    curves,
    loads,
    overhead,
    peers,
    sharing,
    small,
    stores,
    tokens,
    writing,
)

if TYPE_CHECKING:
    from bench.parts import Part

PARTS: Final[tuple[Part, ...]] = (
    *blob.PARTS,
    *by_c.PARTS,
    *writing.PARTS,
    *small.PARTS,
    *overhead.PARTS,
    *sharing.PARTS,
    *crowds.PARTS,
    *peers.PARTS,
    *curves.PARTS,
    *stores.PARTS,
    *bucket.PARTS,
    *loads.PARTS,
    *tokens.PARTS,
)
