"""Where a path of a package leads, and whether it may."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sealcar.modelpackage.errors import ConfinementError, InvalidPathError, MissingError

_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True)
class Confinement:
    """The rules that paths of one package, or of one asset of it, obey.

    Attributes:
        root: real path of the package; empty: it has none yet, and nothing can be resolved.
        external: paths may lead out of it.
        follow_symlinks: links in front of a missing path are resolved.
    """

    root: str
    external: bool = False
    follow_symlinks: bool = True

    def resolve(self, base: str, text: str, where: str) -> str:
        """Return the real path of something that must exist.

        Raises:
            MissingError: it doesn't.
            ConfinementError, InvalidPathError: as `locate`.
        """
        joined = self._joined(base, text, where)
        if not self.root and not joined.startswith("/"):
            raise MissingError("the package has no directory yet to find it in", where=where)
        if not is_there(joined):
            raise MissingError(f"{joined!a} does not exist", where=where)
        return self._confined(os.path.realpath(joined), where)

    def locate(self, base: str, text: str, where: str) -> str:
        """Return the real path of something that may be missing; "" if there is no root yet.

        Raises:
            ConfinementError: it leads, or is written so that it could lead, out of the package.
            InvalidPathError: it is empty.
        """
        joined = self._joined(base, text, where)
        if not self.root and not joined.startswith("/"):
            return ""
        if is_there(joined):
            return self._confined(os.path.realpath(joined), where)
        return self._confined(
            resolved_prefix(joined) if self.follow_symlinks else normal(joined), where
        )

    def unlinked(self, path: str, where: str) -> None:
        """Check that a path lies strictly below the root and no part of it is a link.

        Raises:
            ConfinementError: it doesn't, or one is.
        """
        parts = [part for part in path.split("/") if part not in ("", ".")]
        plain = "/" + "/".join(parts)
        if not os.path.normpath(plain).startswith(self.root + "/"):
            raise ConfinementError(f"{path!a} leads out of the package", where=where)
        walked = Path("/")
        for part in parts:
            walked /= part
            inside = str(walked).startswith(self.root + "/")
            if inside and walked.is_symlink():
                raise ConfinementError(f"{str(walked)!a} is a link", where=where)
        if is_there(plain) and not os.path.realpath(plain).startswith(self.root + "/"):
            raise ConfinementError(f"{path!a} leads out of the package", where=where)

    def _joined(self, base: str, text: str, where: str) -> str:
        if not text:
            raise InvalidPathError("a path must not be empty", where=where)
        if "\0" in text:
            raise InvalidPathError("a path must not hold NUL", where=where)
        if not self.external:
            if text.startswith("/"):
                raise ConfinementError(f"path {text!a} must be relative", where=where)
            if ".." in text.split("/"):
                raise ConfinementError(f"path {text!a} must not hold '..'", where=where)
        return joined(base, text)

    def _confined(self, path: str, where: str) -> str:
        if self.external or is_within(path, self.root):
            return path
        raise ConfinementError(f"{path!a} is outside the package {self.root!a}", where=where)


def joined(base: str, text: str) -> str:
    """Return a path, relative to a base unless it is absolute; nothing is normalised."""
    if text.startswith("/") or not base:
        return text
    return f"{base}{text}" if base.endswith("/") else f"{base}/{text}"


def is_within(path: str, root: str) -> bool:
    """Tell from the text alone whether a path is a directory or below it."""
    return path == root or path.startswith(f"{root}/" if root != "/" else root)


def is_there(path: str | Path) -> bool:
    """Tell whether something exists, links followed; what can't be looked at counts as missing."""
    try:
        os.stat(path)  # noqa: PTH116  (called for every variant)
    except (OSError, ValueError):
        return False
    return True


def resolved_prefix(path: str) -> str:
    """Return a path with the links of its longest existing part resolved.

    If that part can't be told, for a loop of links say, the path is only normalised.
    """
    parts = path.split("/")
    existing = "/".join(parts[:-1])
    missing = len(parts) - 1
    # most often only the last part is missing
    if not existing or not _exists(existing):
        existing = "/" if path.startswith("/") else ""
        missing = 0
    while missing < len(parts):
        further = joined(existing, parts[missing])
        found = _exists(further)
        if found is None:
            return normal(path)
        if not found:
            break
        existing = further
        missing += 1
    if not existing:
        return normal(path)
    return normal("/".join([os.path.realpath(existing), *parts[missing:]]))


def _exists(path: str) -> bool | None:
    try:
        os.stat(path)  # noqa: PTH116  (called for every part of a path)
    except OSError as error:
        return False if error.errno in _ABSENT else None
    except ValueError:  # no file can be called so
        return None
    return True


def normal(path: str) -> str:
    """Return a path without `.`, `..` and empty parts; a slash at the end means a directory."""
    parts = path.split("/")
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part not in ("", ".", "..") or (part == ".." and not path.startswith("/")):
            kept.append(part)
    return _spelt(kept, absolute=path.startswith("/"), slash=parts[-1] in ("", ".", ".."))


def _spelt(kept: list[str], *, absolute: bool, slash: bool) -> str:
    if not kept:
        return "/" if absolute else "."
    # a relative path that climbs ends without
    slash = slash and kept[-1] != ".."
    return ("/" if absolute else "") + "/".join(kept) + ("/" if slash else "")
