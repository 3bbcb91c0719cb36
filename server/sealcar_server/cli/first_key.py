"""The key-encryption key of a first daemon: a new file's, or one that a key service has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sealcar.errors import ConfigurationError
from sealcar_server import settings_kinds as kinds
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource

if TYPE_CHECKING:
    from sealcar_server.keys.provider import KeyProvider
    from sealcar_server.keys.source import KeyUri

T = TypeVar("T")
FILE: Final = "kek"
_NEW: Final = """\
# Whoever has this file can open every package of the store; whoever loses it can open none.
uri = "file:kek"
"""
_UNDER: Final = "# The passphrase that the file is under. Keep it elsewhere than the file.\n"


@dataclass(frozen=True)
class FirstKey:
    """What was asked for.

    Attributes:
        uri: where the key is; None: a new one is made in a file.
        secret: file with what opens it: a new file's passphrase, or a PIN or token.
    """

    uri: KeyUri | None
    secret: Path | None

    @classmethod
    def asked(cls, uri: str | None, secret: str | None) -> FirstKey:
        """Read the two options; relative paths are of the current directory.

        Raises:
            ConfigurationError: one is wrong.
        """
        return cls(
            None if uri is None else _read(kinds.key_uri(), "--key-uri", uri),
            None if secret is None else _read(kinds.secret(), "--key-secret", secret),
        )

    def settings(self) -> str:
        """Return the keys of [keys.default]."""
        text = _NEW if self.uri is None else f"uri = {json.dumps(self.uri.absolute)}\n"
        if self.secret is None:
            return text
        comment = _UNDER if self.uri is None else ""
        return f"{text}{comment}secret = {json.dumps(f'file:{self.secret}')}\n"

    def said(self) -> str:
        """Say where the key is, for whoever asked."""
        if self.uri is not None:
            return f"(no {FILE})       the key-encryption key is {self.uri}"
        mode = "under the passphrase" if self.secret else "mode 0600"
        return f"{FILE}            the key-encryption key, {mode}: keep a copy in a safe place"

    def check(self) -> None:
        """Ask a key that there is whether it would serve, before anything is made.

        Raises:
            SealcarError: it wouldn't.
        """
        if self.uri is not None:
            provider = open_provider(KeySource(self.uri, self.secret))
            try:
                provider.health()
            finally:
                provider.close()

    def provider(self, folder: Path) -> KeyProvider:
        """Make the key's provider, and the key's file if it is to be a new one.

        Raises:
            SealcarError: it can't be used.
        """
        if self.uri is None:
            return FileProvider.create(folder / FILE, self.secret)
        return open_provider(KeySource(self.uri, self.secret))


def _read(kind: kinds.Kind[T], option: str, value: str) -> T:
    try:
        return kind.read(value, Path.cwd())
    except ValueError as error:
        raise ConfigurationError(f"{option} must be {kind.allowed}: {error}") from None
