"""References: how a person names an artifact in a registry.

HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from sealcar.errors import InvalidNameError
from sealcar.names import shown

SHAPE: Final = "HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]"
LATEST: Final = "latest"
_HUB: Final = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
_MOST: Final = 255  # of host and repository together, which some registries hold to
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_HOST: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?", re.ASCII | re.IGNORECASE
)
# both are those of the distribution specification
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class Reference:
    """Where an artifact is.

    Attributes:
        host: of the registry, with its port if it isn't the usual one.
        repository: there.
        tag: empty: none was named.
        digest: of its manifest, "sha256:…", which decides if both are there; empty: none.
    """

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference.

        Raises:
            InvalidNameError: it hasn't that shape.
        """
        head, at, digest = text.partition("@")
        host, slash, path = head.partition("/")
        path, colon, tag = path.partition(":")
        # a host that looks like a part of a repository would be one to other tools
        if not slash or not _HOST.fullmatch(host) or not ("." in host or ":" in host):
            raise _wrong(text, "begins with the registry's name: one with a dot, or with a port")
        if not _REPOSITORY.fullmatch(path) or len(host) + len(path) >= _MOST:
            raise _wrong(text, "has a repository of [a-z0-9], with . _ - and / between")
        if colon and not _TAG.fullmatch(tag):
            raise _wrong(text, "has a tag of [A-Za-z0-9._-], at most 128")
        if at and not is_digest(digest):
            raise _wrong(text, "has sha256: and 64 hexadecimal digits after an @")
        if host in _HUB and "/" not in path:
            path = f"library/{path}"
        return cls(_HUB.get(host, host), path, tag, digest)

    def __str__(self) -> str:
        """Write it so that `parse` gives it back."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"

    @property
    def place(self) -> str:
        """Host and repository."""
        return f"{self.host}/{self.repository}"

    @property
    def manifest(self) -> str:
        """What its manifest is asked for by."""
        return self.digest or self.tag or LATEST


def is_digest(text: object) -> bool:
    """Tell whether this is a digest of the kind that is checked here."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def repository(text: str) -> str:
    """Return the name of a repository.

    Raises:
        InvalidNameError: it is none.
    """
    if not _REPOSITORY.fullmatch(text) or len(text) >= _MOST:
        raise InvalidNameError(f"{shown(text)} is no repository of a registry")
    return text


def _wrong(text: str, rule: str) -> InvalidNameError:
    return InvalidNameError(f"{shown(text)} is no reference: {SHAPE} {rule}")
