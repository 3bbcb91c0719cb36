"""Requests that a bucket got, by kind, as the server's own log has them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# what is charged alike: copies and the steps of an upload as PUT; deleting costs nothing
KINDS: Final = ("GET", "HEAD", "LIST", "PUT", "DELETE")
REFUSED: Final = "refused"
_OPERATIONS: Final = {
    "GetObject": "GET",
    "HeadObject": "HEAD",
    "HeadBucket": "HEAD",
    "ListObjects": "LIST",
    "ListObjectsV2": "LIST",
    "PutObject": "PUT",
    "CopyObject": "PUT",
    "CreateMultipartUpload": "PUT",
    "UploadPart": "PUT",
    "CompleteMultipartUpload": "PUT",
    "AbortMultipartUpload": "DELETE",
    "DeleteObject": "DELETE",
    "DeleteObjects": "DELETE",
}
# versitygw, in the form of S3's own access logs: operation, key, URI, status
_GATEWAY: Final = re.compile(r"\] \S+ \S+ \S+ s3_(\w+) \S+ \S+ (\d{3}) ")
# moto, as its HTTP server logs: method, path, status
_MOTO: Final = re.compile(r'"([A-Z]+) (\S+) HTTP/1\.[01]" (\d{3}) ')
_METHODS: Final = {"HEAD": "HEAD", "PUT": "PUT", "POST": "PUT", "DELETE": "DELETE"}


class RequestLog:
    """A server's log, counted from the last time on.

    Args:
        path: that the server writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def count(self) -> Counter[str]:
        """Return what came since the last call; what was refused counts among its kind, too."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            whole = file.read().rpartition(b"\n")[0]
        self._at += len(whole) + bool(whole)
        return counted(whole.decode(errors="replace").splitlines())


def counted(lines: Iterable[str]) -> Counter[str]:
    """Count the requests of lines; those that are none count as nothing."""
    found: Counter[str] = Counter()
    for line in lines:
        kind, status = _kind(line)
        if kind:
            found[kind] += 1
            found[REFUSED] += status >= 400
    return +found


def _kind(line: str) -> tuple[str, int]:
    if match := _GATEWAY.search(line):
        return _OPERATIONS.get(match[1], ""), int(match[2])
    if match := _MOTO.search(line):
        return _by_method(match[1], match[2]), int(match[3])
    return "", 0


def _by_method(method: str, path: str) -> str:
    """Return the kind of a request that is told by its method: "" for one of no object."""
    bare, _, query = path.partition("?")
    inside = bare.strip("/").partition("/")[2]
    if method == "GET":
        return "GET" if inside else "LIST" if "list-type" in query or "prefix" in query else ""
    if method == "POST" and query.startswith("delete"):
        return "DELETE"
    return _METHODS.get(method, "") if inside or method == "HEAD" else ""
