"""What a reference in `executor_info` stands for: the name of a payload, or of a folder of them.

A reference is a path relative to the variant, or names a shared asset: "sha256:" with 64
hexadecimal digits, then perhaps "/" and a path in it. Shared assets that the daemon serves with the
variant keep their URI as the first part of the name. An asset that ONNX Runtime isn't led to has a
copy among the variant's own payloads, whose first part has a hyphen in place of the colon.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidNameError, NotFoundError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Collection

_REFERENCE: Final = re.compile(r"sha256:([0-9a-f]{64})(?:/(.*))?", re.DOTALL)


def resolve(reference: str, payloads: Collection[str]) -> str:
    """Return the name of the payload that a reference leads to.

    Args:
        reference: as it stands in `executor_info`.
        payloads: names of all payloads of the scope.

    Raises:
        InvalidNameError: it leads out of the variant or asset.
        NotFoundError: the scope has no such payload.
    """
    for name in _candidates(reference):
        if name in payloads:
            return name
    raise NotFoundError(f"the variant has no payload that {shown(reference)} leads to")


def resolve_folder(reference: str, payloads: Collection[str]) -> str:
    """Return what the names of all payloads in a folder begin with: "" or something with "/" last.

    Raises:
        InvalidNameError: it leads out of the variant or asset.
        NotFoundError: the scope has no payload in such a folder.
    """
    for name in _candidates(reference):
        prefix = f"{name}/" if name else ""
        if any(payload.startswith(prefix) for payload in payloads):
            return prefix
    raise NotFoundError(f"the variant has no folder that {shown(reference)} leads to")


def _candidates(reference: str) -> list[str]:
    match = _REFERENCE.fullmatch(reference)
    if not match:
        return [_inside(reference, reference)]
    path = _inside(match[2] or "", reference)
    tail = f"/{path}" if path else ""
    return [f"sha256:{match[1]}{tail}", f"sha256-{match[1]}{tail}"]


def _inside(path: str, reference: str) -> str:
    """Return the path without "." and ".."; empty for the folder itself."""
    normal = posixpath.normpath(path) if path else "."
    if normal.startswith(("/", "../")) or normal == ".." or "\0" in normal:
        raise InvalidNameError(f"reference {shown(reference)} leads out of its folder")
    return "" if normal == "." else normal
