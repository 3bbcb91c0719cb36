"""Every kind of key provider over a real service, as its operator and as the daemon see it."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from support.moto_server import SECRET, KmsServer
from support.processes import stopped
from support.softhsm import PIN, SoftToken

from sealcar_server.keys import key_store, registry
from sealcar_server.keys.source import KeySource, parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from support.openbao import Bao

    from sealcar_server.keys.provider import KeyProvider

TIMEOUT: Final = 3.0
_number: Final = count(1)


class Custody(Protocol):
    """One key-encryption key.

    Attributes:
        kind: the provider's word.
        secrets: that no message and no repr may show.
        counts: its versions are told apart.
    """

    kind: ClassVar[str]
    counts: ClassVar[bool]
    secrets: tuple[str, ...]

    def open(self) -> KeyProvider:
        """Make a provider, as the daemon does from its settings."""

    def another(self) -> Custody:
        """Make another key-encryption key of the same kind."""

    def rotate(self) -> None:
        """Give the key a new version."""

    def disable(self) -> None:
        """Take the key away for good."""

    def outage(self) -> AbstractContextManager[None]:
        """Keep the service from answering during a block."""


def provider(uri: str, secret: Path | None, folder: Path) -> KeyProvider:
    """Make the provider of a URI."""
    return registry.open_provider(KeySource(parse(uri, folder), secret, TIMEOUT))


class FileCustody:
    kind: ClassVar = "file"
    counts: ClassVar = True
    phrase: ClassVar = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / f"kek-{next(_number)}"
        self.secret = self._passphrase()
        key_store.create(self.path, self.secret)
        self.secrets: tuple[str, ...] = (self.phrase or self.path.read_text().split()[-1],)

    def open(self) -> KeyProvider:
        return provider(f"file:{self.path}", self.secret, self._folder)

    def another(self) -> FileCustody:
        return type(self)(self._folder)

    def rotate(self) -> None:
        key_store.add_version(self.path, self.secret)

    def disable(self) -> None:
        self.path.unlink()

    @contextmanager
    def outage(self) -> Iterator[None]:
        aside = self.path.with_suffix(".aside")
        self.path.rename(aside)
        yield
        aside.rename(self.path)

    def _passphrase(self) -> Path | None:
        return None


class PassphraseCustody(FileCustody):
    phrase: ClassVar = "correct horse battery staple"

    def _passphrase(self) -> Path:
        file = self.path.with_suffix(".passphrase")
        file.touch(0o600)
        file.write_text(self.phrase + "\n")
        return file


class TokenCustody:
    kind: ClassVar = "pkcs11"
    counts: ClassVar = True
    secrets: tuple[str, ...] = (PIN,)

    def __init__(self, token: SoftToken, folder: Path) -> None:
        self._token, self._folder = token, folder
        self.label = f"kek {next(_number)}"
        self._ids = count(1)
        self.rotate()

    def open(self) -> KeyProvider:
        uri = self._token.uri(self.label.replace(" ", "%20"))
        return provider(uri, self._token.pin_file, self._folder)

    def another(self) -> TokenCustody:
        return TokenCustody(self._token, self._folder)

    def rotate(self) -> None:
        self._token.make(self.label, f"{next(self._ids):02x}")

    def disable(self) -> None:
        self._token.destroy(self.label)

    def outage(self) -> AbstractContextManager[None]:
        return self._token.unreachable()


class KmsCustody:
    kind: ClassVar = "aws-kms"
    counts: ClassVar = False
    secrets: tuple[str, ...] = (SECRET,)

    def __init__(self, server: KmsServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.key = server.make()

    def open(self) -> KeyProvider:
        return provider(self._server.uri(self.key), self._server.credentials, self._folder)

    def another(self) -> KmsCustody:
        return KmsCustody(self._server, self._folder)

    def rotate(self) -> None:
        self._server.operator.rotate_key_on_demand(KeyId=self.key)

    def disable(self) -> None:
        self._server.operator.disable_key(KeyId=self.key.rpartition("/")[2])

    def outage(self) -> AbstractContextManager[None]:
        return stopped(self._server.process)


class TransitCustody:
    kind: ClassVar = "vault"
    counts: ClassVar = True

    def __init__(self, server: Bao, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.name = f"kek-{next(_number)}"
        self.secrets: tuple[str, ...] = (server.token_file.read_text(),)
        server.make(self.name)

    def open(self) -> KeyProvider:
        return provider(self._server.uri(self.name), self._server.token_file, self._folder)

    def another(self) -> TransitCustody:
        return TransitCustody(self._server, self._folder)

    def rotate(self) -> None:
        self._server.transit.rotate_key(self.name)

    def disable(self) -> None:
        self._server.transit.update_key_configuration(self.name, deletion_allowed=True)
        self._server.transit.delete_key(self.name)

    @contextmanager
    def outage(self) -> Iterator[None]:
        self._server.seal()
        yield
        self._server.unseal()
