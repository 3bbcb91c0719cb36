"""Addresses: how a person names a package, or something in it, the same in every command.

    NAME[@VERSION][/COMPONENT[/VARIANT[/PAYLOAD]]]

A name that itself holds `/`, `@` or `%` is percent-encoded there: the payload
`tokenizer/vocab.txt` is written `tokenizer%2Fvocab.txt`.
`Address.parse` and `str` are inverse to each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote_to_bytes

from sealcar import names
from sealcar.errors import InvalidNameError, InvalidRequestError

SHAPE: Final = "NAME[@VERSION][/COMPONENT[/VARIANT[/PAYLOAD]]]"
_PARTS: Final = 4
_BARE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RESERVED: Final = str.maketrans({"/": "%2F", "@": "%40", "%": "%25"})


@dataclass(frozen=True)
class Address:
    """A package, a component, a variant or a payload; what isn't named is empty.

    Attributes:
        name, version: of the package in the store; an empty version means the current one.
        component, variant, payload: each given only with the one before it.
    """

    name: str
    version: str = ""
    component: str = ""
    variant: str = ""
    payload: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address.

        Raises:
            InvalidNameError: it hasn't that shape, or a name in it breaks a rule of the format.
        """
        package, *rest = text.split("/")
        if len(rest) >= _PARTS:
            raise InvalidNameError(
                f"address {names.shown(text)} has too many parts; write it as {SHAPE},"
                " with %2F for a slash inside a name"
            )
        name, at, version = package.partition("@")
        inner = [_decode(part, text) for part in rest]
        component, variant, payload = inner + [""] * (_PARTS - 1 - len(inner))
        names.store_name(_decode(name, text))
        if at:
            names.store_name(_decode(version, text), "package version")
        for part, what in zip(inner[:2], ("component", "variant"), strict=False):
            names.part(part, what)
        if payload or len(inner) == _PARTS - 1:
            names.payload(payload)
        return cls(_decode(name, text), _decode(version, text), component, variant, payload)

    @classmethod
    def whole(cls, text: str) -> Self:
        """Read the address of a package, and of nothing in it.

        Raises:
            InvalidNameError: as `parse`. InvalidRequestError: it names more.
        """
        address = cls.parse(text)
        if address != address.package:
            raise InvalidRequestError(f"this takes a whole package: {address.package}")
        return address

    def __str__(self) -> str:
        """Write it so that `parse` gives it back."""
        package = self.name + (f"@{self.version}" if self.version else "")
        inner = [part for part in (self.component, self.variant, self.payload) if part]
        return "/".join([package, *(part.translate(_RESERVED) for part in inner)])

    @property
    def package(self) -> Address:
        """The package alone."""
        return Address(self.name, self.version)


def _decode(part: str, text: str) -> str:
    if _BARE_PERCENT.search(part):
        raise InvalidNameError(f"address {names.shown(text)}: a % must be written as %25")
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeError:
        raise InvalidNameError(f"address {names.shown(text)} must be UTF-8") from None
