"""PKCS#11 libraries and logins at their tokens.

A process has one login a token, so whoever else wants the token shares it. Everything that is done
with a library happens under its lock: a library that is initialised anew gives old handles a new
meaning, so nobody may hold one meanwhile.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pkcs11

from sealcar.errors import ConfigurationError, KeyUnavailableError
from sealcar_server.keys import private_file
from sealcar_server.keys.pkcs11_errors import RETRY

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.keys.pkcs11_uri import TokenKey


@dataclass(eq=False)
class Login:
    """A session at a token.

    Attributes:
        session: of the library; not to be used when lost.
        users: who share it.
        lost: the token doesn't know it any more, or it was logged out.
    """

    session: pkcs11.Session
    users: set[object] = field(default_factory=set)
    lost: bool = False


class Library:
    """One library.

    Args:
        module: its file.

    Attributes:
        lock: to be held by whoever calls anything of it.
    """

    def __init__(self, module: Path) -> None:
        self.lock: Final = threading.RLock()
        self._module = module
        self._loaded = False
        self._logins: dict[tuple[bytes, str], Login] = {}

    def enter(self, user: object, key: TokenKey, pin: Path | None) -> Login:
        """Log in at a key's token.

        Raises:
            ConfigurationError: the library can't be loaded, or two tokens match.
            KeyUnavailableError: there is no such token now, or the PIN can't be read.
            pkcs11.PKCS11Error: the token refuses.
        """
        token = _token(self._initialised(), key)
        name = (token.serial, token.label)
        if name not in self._logins:
            self._logins[name] = Login(_opened(token, pin))
        self._logins[name].users.add(user)
        return self._logins[name]

    def leave(self, user: object) -> None:
        """Log out where nobody else is left."""
        for login in list(self._logins.values()):
            login.users.discard(user)
            if not login.users:
                self.lose(login)

    def lose(self, login: Login) -> None:
        """Make everybody who shares a login enter again."""
        login.lost = True
        self._logins = {name: one for name, one in self._logins.items() if one is not login}
        try:
            login.session.close()
        except pkcs11.PKCS11Error:
            return  # the token closed it

    def _initialised(self) -> pkcs11._pkcs11.lib:
        try:
            library = pkcs11.lib(str(self._module))
        except RuntimeError as error:
            # a library that loads answers by a subclass of its own
            if type(error) not in (RuntimeError, pkcs11.PKCS11Error):
                raise
            raise ConfigurationError(
                f"{self._module} can't be loaded as a PKCS#11 library"
            ) from error
        if self._loaded and not self._logins:
            # most libraries see a token that came back only then
            library.reinitialize()
        self._loaded = True
        return library


# one library that hangs holds up none of another's
_lock: Final = threading.Lock()
_libraries: Final[dict[Path, Library]] = {}


def library_of(module: Path) -> Library:
    """Return a library, which isn't loaded before somebody enters."""
    with _lock:
        return _libraries.setdefault(module, Library(module))


def _token(library: pkcs11._pkcs11.lib, key: TokenKey) -> pkcs11.Token:
    label, serial = key.token or None, key.serial.encode() or None
    found = list(library.get_tokens(token_label=label, token_serial=serial))
    if len(found) > 1:
        raise ConfigurationError(f"{len(found)} tokens match {key}: add its serial= to the URI")
    if not found:
        raise KeyUnavailableError(f"{key}: there is no such token now", retry_after=RETRY)
    return found[0]


def _opened(token: pkcs11.Token, pin: Path | None) -> pkcs11.Session:
    if pin is None:
        return token.open()
    with private_file.read_secret(pin, "PIN file") as secret:
        # the library takes text only; docs/keys.md says that it isn't wiped
        return token.open(user_pin=bytes(secret.view).decode("utf-8", "replace"))
