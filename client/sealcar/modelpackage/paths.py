"""Where a path of a package leads, and whether it may."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sealcar.modelpackage.errors import ConfinementError, InvalidPathError, MissingError


@dataclass(frozen=True)
class Confinement:
    """The rules that paths of one package obey.

    Attributes:
        root: real path of the package.
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
        if not is_there(joined):
            raise MissingError(f"{joined!a} does not exist", where=where)
        return self._confined(os.path.realpath(joined), where)

    def locate(self, base: str, text: str, where: str) -> str:
        """Return the real path of something that may be missing.

        Raises:
            ConfinementError: it leads, or is written so that it could lead, out of the package.
            InvalidPathError: it is empty.
        """
        joined = self._joined(base, text, where)
        if is_there(joined):
            return self._confined(os.path.realpath(joined), where)
        real = os.path.realpath(joined) if self.follow_symlinks else joined
        # a trailing slash of a missing path is part of what is reported
        slash = "/" if joined.endswith(("/", "/.", "/..")) else ""
        return self._confined(os.path.normpath(real).rstrip("/") + slash, where)

    def unlinked(self, path: str, where: str) -> None:
        """Check that a path lies strictly below the root and no part of it is a link.

        Raises:
            ConfinementError: it doesn't, or one is.
        """
        parts = [part for part in path.split("/") if part not in ("", ".")]
        plain = "/" + "/".join(parts)
        normal = os.path.normpath(plain)
        if not normal.startswith(self.root + "/"):
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
        return text if text.startswith("/") else f"{base}/{text}"

    def _confined(self, path: str, where: str) -> str:
        if self.external or path == self.root or path.startswith(self.root.rstrip("/") + "/"):
            return path
        raise ConfinementError(f"{path!a} is outside the package {self.root!a}", where=where)


def is_there(path: str | Path) -> bool:
    """Tell whether something exists, links followed; what can't be looked at counts as missing."""
    try:
        Path(path).stat()
    except OSError:
        return False
    return True
