"""Calls to one PKCS#11 token: in time, one at a time, logged in, and again after a lost login."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pkcs11

from sealcar.errors import KeyRefusedError, SealcarError
from sealcar_server.keys import pkcs11_errors
from sealcar_server.keys.bounded import Bounded
from sealcar_server.keys.pkcs11_login import Login, library_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.keys.pkcs11_uri import TokenKey

T = TypeVar("T")


class TokenCalls:
    """Calls for one key. A PIN that was refused isn't tried again: tokens count.

    Args:
        place: of the key.
        pin: file with the token's PIN; None: the token wants none.
        timeout: seconds that a call may take.
    """

    def __init__(self, place: TokenKey, pin: Path | None, timeout: float) -> None:
        self._place, self._pin = place, pin
        self._bounded = Bounded(str(place), timeout)
        self._library = library_of(place.module)
        self._login: Login | None = None
        self._refused: SealcarError | None = None

    def __call__(self, act: Callable[[], T]) -> T:
        """Return what `act` returns, or raise what it raises of ours.

        Raises:
            KeyRefusedError, KeyUnavailableError: the token does, or doesn't answer.
        """
        return self._bounded(lambda: self._alone(act))

    def session(self) -> pkcs11.Session:
        """Return a session at the token, for use within a call; raises as `Library.enter`."""
        if self._login is None or self._login.lost:
            self._login = self._library.enter(self, self._place, self._pin)
        return self._login.session

    def close(self) -> None:
        """Log out, if nobody else uses the token; the next call logs in anew."""
        with self._library.lock:
            self._library.leave(self)

    def _alone(self, act: Callable[[], T]) -> T:
        with self._library.lock:
            if self._refused is not None:
                raise KeyRefusedError(self._refused.message)
            try:
                return self._tried(act)
            except pkcs11.PKCS11Error as error:
                found = pkcs11_errors.meaning(error, str(self._place))
                if isinstance(error, pkcs11_errors.PIN_REFUSED):
                    self._refused = found
                raise found from error

    def _tried(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except pkcs11_errors.LOGIN_LOST:
            if self._login is not None:
                self._library.lose(self._login)
            return act()
