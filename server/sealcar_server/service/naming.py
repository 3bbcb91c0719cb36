"""Names that come in with an import or a write, beyond what each name's own rule says."""

from __future__ import annotations

import unicodedata
from typing import Final

from sealcar import names
from sealcar.errors import AlreadyExistsError, InvalidNameError, InvalidRequestError
from sealcar_server.sealing.record import KINDS
from sealcar_server.service.references import is_uri

MAX_PAYLOADS: Final = 10_000


def component(name: str) -> str:
    """Check a component's name, which is a directory of a generation."""
    return _folder(name, "component name")


def variant(name: str) -> str:
    """Check a variant's name, which is a directory of its component."""
    return _folder(name, "variant name")


def payload(name: str, kind: str) -> str:
    """Check a payload's name by the rule of its kind.

    Raises:
        InvalidNameError: the name breaks a rule.
        InvalidRequestError: there is no such kind.
    """
    if kind not in KINDS:
        raise InvalidRequestError(f"a payload's kind must be one of {', '.join(sorted(KINDS))}")
    if is_uri(name.split("/", maxsplit=1)[0]):
        raise InvalidNameError(f"payload name {names.shown(name)} is one of a shared asset")
    return names.blob(name) if kind == "blob" else names.payload(name)


class NameSet:
    """The payloads of one variant: no twin ignoring case, no file where another has a folder."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, int] = {}

    def claim(self, name: str) -> None:
        """Take a name.

        Raises:
            AlreadyExistsError: it is taken, perhaps in another case.
            InvalidNameError: it is a folder of another name, or the other way round.
            InvalidRequestError: there are too many.
        """
        folded = _folded(name)
        if folded in self._files:
            raise AlreadyExistsError(
                f"payload {names.shown(name)} was written already; names are equal ignoring case"
            )
        folders = _folders(folded)
        if folded in self._folders or self._files.intersection(folders):
            raise InvalidNameError(f"payload name {names.shown(name)} is both a file and a folder")
        if len(self._files) >= MAX_PAYLOADS:
            raise InvalidRequestError(f"a variant holds at most {MAX_PAYLOADS} payloads")
        self._files.add(folded)
        for folder in folders:
            self._folders[folder] = self._folders.get(folder, 0) + 1

    def release(self, name: str) -> None:
        """Give a claimed name back."""
        folded = _folded(name)
        self._files.discard(folded)
        for folder in _folders(folded):
            self._folders[folder] -= 1
            if not self._folders[folder]:
                del self._folders[folder]


def _folder(name: str, what: str) -> str:
    if names.part(name, what).casefold() in names.RESERVED:
        raise InvalidNameError(f"{what} {names.shown(name)} is a name of the format")
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def _folders(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
