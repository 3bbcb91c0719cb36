"""Credentials for one registry: given, or where `docker login` and `oras login` leave them.

`oras` looks them up, asks docker's credential helpers, and reads a registry's challenge. What it
asks for a token is asked here: within bounds, and never over a line that wasn't agreed on.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from oras.auth.token import TokenAuth

from sealcar.errors import ConfigurationError, DeniedError
from sealcar.names import shown
from sealcar.oci import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests

    from sealcar.oci.access import Access

_MOST: Final = 4 << 20
_MOST_CHALLENGE: Final = 4096  # oras reads it in a time that grows with its square
# under which docker keeps what is for its own registry
_HUB: Final = {"registry-1.docker.io": ("docker.io", "index.docker.io")}
# speaks of credentials; an application that wants to hear it has handlers of its own
logging.getLogger("oras.logger").addHandler(logging.NullHandler())


class Login(TokenAuth):  # type: ignore[misc]  # oras publishes no types
    """Answers the challenges of one registry.

    Args:
        host: of the registry.
        access: as whom.
        fetch: gets a small document: URL, parameters and headers; may raise a SealcarError.

    Raises:
        ConfigurationError: the file of credentials can't be read.
    """

    def __init__(
        self,
        host: str,
        access: Access,
        fetch: Callable[[str, Mapping[str, str], Mapping[str, str]], bytes],
    ) -> None:
        super().__init__()
        self.prefix = "http" if access.plain_http else "https"
        self._fetch = fetch
        self._agreed: dict[str, str] = {}
        if access.username:
            self.set_basic_auth(access.username, access.password)
            return
        self._auth_config = _config(access.config)
        try:
            found = any(self._load_auth(name) for name in _names(host))
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            # the cause may hold what a helper said
            raise ConfigurationError(f"what is kept as credentials for {host} is none") from None
        if found and not _fits(self._basic_auth):
            raise ConfigurationError(f"what is kept as credentials for {host} is none")

    def headers(self) -> dict[str, str]:
        """Return what goes with a request, as far as it is known."""
        return dict(self.get_auth_header()) or self._agreed

    def answer(self, response: requests.Response) -> bool:
        """Take a refusal; tell whether there is something new to try.

        Raises:
            DeniedError: the token's server is nobody to send credentials to.
            SealcarError: it doesn't answer.
        """
        challenge = response.headers.get("Www-Authenticate", "")
        if len(challenge) > _MOST_CHALLENGE:
            return False
        scheme = challenge.partition(" ")[0].lower()
        known = getattr(self, "_basic_auth", None)
        if scheme == "basic":
            basic = f"Basic {known}"
            tried = response.request.headers.get("Authorization") == basic
            self._agreed = {"Authorization": basic} if known else {}
            return known is not None and not tried
        if scheme != "bearer":
            return False
        # a token is for what was asked for then: a new one has the rights that are wanted now
        return bool(self.authenticate_request(response, {}, refresh=True)[1])

    def request_token(self, h: Any) -> str | None:  # noqa: ANN401  (of oras)
        """Ask for a token as somebody."""
        basic = getattr(self, "_basic_auth", None)
        return self._asked(h, {"Authorization": f"Basic {basic}"} if basic else {})

    def request_anonymous_token(self, h: Any) -> str | None:  # noqa: ANN401  (of oras)
        """Ask for a token as nobody."""
        return self._asked(h, {})

    def _asked(self, challenge: Any, headers: dict[str, str]) -> str | None:  # noqa: ANN401  (of oras)
        realm = str(challenge.realm or "")
        realm = realm if "://" in realm else f"{self.prefix}://{realm}"
        if answers.origin(realm)[0] not in ("https", self.prefix):
            raise DeniedError(f"the registry sends for a token to {shown(realm)}: not over TLS")
        asked = {"service": challenge.service, "scope": challenge.scope}
        data = self._fetch(realm, {name: text for name, text in asked.items() if text}, headers)
        try:
            answer = json.loads(data)
            token = answer.get("token") or answer.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            return None
        return token if _fits(token) else None


def _fits(value: object) -> TypeGuard[str]:
    """Tell whether this can be a part of a header."""
    return isinstance(value, str) and value.isascii() and value.isprintable()


def _config(given: Path | None) -> dict[str, Any]:
    """Return what docker's file says, or nothing.

    Raises:
        ConfigurationError: it can't be read, or the one that was named isn't there.
    """
    # where there is no home, the name leads nowhere, and so to nothing
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")  # noqa: PTH111
    place = given or Path(folder, "config.json")
    try:
        with place.open("rb") as file:
            data = file.read(_MOST)
    except FileNotFoundError as error:
        if given is None:
            return {"auths": {}}
        raise ConfigurationError(f"{place}: {error.strerror}") from error
    except OSError as error:
        raise ConfigurationError(f"{place}: {error.strerror}") from error
    try:
        value = json.loads(data)
        found = {name: value.get(name) or {} for name in ("auths", "credHelpers", "credsStore")}
    except (ValueError, AttributeError, RecursionError):
        raise ConfigurationError(f"{place} holds no JSON object") from None
    return found


def _names(host: str) -> Iterator[str]:
    """Yield the names under which the credentials of a registry may be kept."""
    for name in (host, *_HUB.get(host, ())):
        yield from (name, f"https://{name}", f"https://{name}/v1/", f"https://{name}/v2/")
