"""The hash of a tree of files, by which ORT's package format names shared assets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def tree_uri(files: Mapping[str, bytes]) -> str:
    """Return the URI of a tree, from the SHA-256 of each file by its path in the tree.

    It is what `sealcar.modelpackage.hash_directory` returns of a directory with these files.
    """
    named = sorted((path.encode(), digest) for path, digest in files.items())
    lines = b"".join(b"%b  %b\n" % (digest.hex().encode(), path) for path, digest in named)
    return f"sha256:{hashlib.sha256(lines).hexdigest()}"
