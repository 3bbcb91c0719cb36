"""Names of a store's objects.

    store.json                          which store this is
    assets/LABEL                        where an equal shared asset lies
    NAME/current                        the version that an empty version means
    NAME/VERSION/tombstone              what is left of it once it is shredded
    NAME/VERSION/removed                up to which generation it was removed as a whole
    NAME/VERSION/p/ID                   a payload, of whichever generations refer to it
    NAME/VERSION/g/N/references-H.json  which payload lies where, for the manifest whose hash is H
    NAME/VERSION/g/N/manifest.json      a generation is there when this is; empty: it was removed

Names and versions are checked before they come here. An id is random, so that two daemons that
write the same generation at the same time write nothing to the same place but the manifest, of
which one is refused.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

from sealcar_server.store.generation import GENERATIONS, MANIFEST
from sealcar_server.store.own_files import TOMBSTONE
from sealcar_server.store.places import CURRENT, EQUAL_ASSETS, IDENTITY

__all__ = ["CURRENT", "EQUAL_ASSETS", "IDENTITY"]

_PAYLOADS: Final = "p"
_DEPARTURE: Final = "removed"
_HASH: Final = 32  # hexadecimal digits
ID: Final = re.compile(r"[0-9a-f]{32}")
_STORE_NAME: Final = r"[a-z0-9][a-z0-9._+-]{0,63}"
_OF_VERSION: Final = re.compile(
    rf"(?P<name>{_STORE_NAME})/(?P<version>{_STORE_NAME})/(?:"
    rf"{GENERATIONS}/(?P<number>[1-9][0-9]{{0,17}})/"
    rf"(?:(?P<manifest>{re.escape(MANIFEST)})|(?P<references>references-[0-9a-f]{{32}}\.json))"
    rf"|{_PAYLOADS}/(?P<payload>{ID.pattern}))"
)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a package, its names checked."""

    name: str
    version: str

    @property
    def prefix(self) -> str:
        """Of all keys of it."""
        return f"{self.name}/{self.version}"

    @property
    def tombstone(self) -> str:
        """Key of what is left of it."""
        return f"{self.prefix}/{TOMBSTONE}"

    @property
    def departure(self) -> str:
        """Key of what is noted when it is removed."""
        return f"{self.prefix}/{_DEPARTURE}"

    def manifest(self, number: int) -> str:
        """Return the key of a generation's manifest."""
        return f"{self.generation(number)}/{MANIFEST}"

    def generation(self, number: int) -> str:
        """Return what the keys of a generation begin with."""
        return f"{self.prefix}/{GENERATIONS}/{number}"

    def references(self, number: int, manifest: bytes) -> str:
        """Return the key of the references that belong to a manifest."""
        digest = hashlib.sha256(manifest).hexdigest()[:_HASH]
        return f"{self.generation(number)}/references-{digest}.json"

    def payload(self, ident: str) -> str:
        """Return the key of a payload."""
        return f"{self.prefix}/{_PAYLOADS}/{ident}"


@dataclass(frozen=True, slots=True)
class Key:
    """What a key is of.

    Attributes:
        of: the version.
        number: of the generation; 0: of none, it is a payload.
        is_manifest: else, with a number, it has references.
        payload: the id of one; else "".
    """

    of: Version
    number: int
    is_manifest: bool
    payload: str


def parsed(key: str) -> Key | None:
    """Return what a key is of; None if that is no generation and no payload."""
    match = _OF_VERSION.fullmatch(key)
    if not match:
        return None
    of = Version(match["name"], match["version"])
    number = int(match["number"] or 0)
    return Key(of, number, match["manifest"] is not None, match["payload"] or "")


def new_id() -> str:
    """Return an id that no payload has."""
    return secrets.token_hex(16)


def current(name: str) -> str:
    """Return the key of a package's pointer."""
    return f"{name}/{CURRENT}"


def asset_entry(label: str) -> str:
    """Return the key of an entry of the index of equal assets."""
    return f"{EQUAL_ASSETS}/{label}"
