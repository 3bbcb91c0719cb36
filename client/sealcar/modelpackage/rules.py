"""How strictly a package is read, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a package may have at most; the native library has no such limits.

    Attributes:
        document_bytes: size of one JSON file.
        depth: of nested arrays and objects in one JSON file.
        components: in the package.
        variants: in all components together.
        tree_entries: files and directories in one directory that is hashed, copied or deleted.
        tree_depth: of directories in it.
    """

    document_bytes: int = 16 * MEBIBYTE
    depth: int = 200
    components: int = 1_000
    variants: int = 10_000
    tree_entries: int = 1_000_000
    tree_depth: int = 100


@dataclass(frozen=True)
class Rules:
    """How strictly a package is read.

    Attributes:
        allow_external_paths: paths may lead out of the package, as in the layout `installed`.
        follow_symlinks: links in front of missing paths are resolved before they are judged.
        unknown_fields: accepted; they always are in packages of a newer minor version.
        unique_keys: refuse duplicate keys, and integers over 64 bits, which readers take
            differently.
        limits: what is refused for its size.
    """

    allow_external_paths: bool = False
    follow_symlinks: bool = True
    unknown_fields: bool = False
    unique_keys: bool = False
    limits: Limits = field(default_factory=Limits)
