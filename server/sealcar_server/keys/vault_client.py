"""Speaks to the transit engine of Vault or OpenBao, where the configuration says only."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlunsplit

import hvac
import requests
from hvac import exceptions as answers

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError, SealcarError
from sealcar.names import shown
from sealcar_server.keys import private_file
from sealcar_server.keys.source import service_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.keys.source import KeyUri

_PATH: Final = re.compile(r"/((?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)+)([A-Za-z0-9_-][A-Za-z0-9._-]*)")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_./-]{1,200}")
_PARAMETERS: Final = ("namespace", "ca")
_RETRY: Final = 5.0


@dataclass(frozen=True)
class TransitKey:
    """Where a key is.

    Attributes:
        url: of the server, without a path.
        mount: of the transit engine.
        name: of the key.
        namespace: empty: the root's.
        ca: the authorities that vouch for the server; None: those of the library.
    """

    url: str
    mount: str
    name: str
    namespace: str
    ca: Path | None

    def __str__(self) -> str:
        """Render as an operator would look for it."""
        inside = f" in namespace {self.namespace}" if self.namespace else ""
        return f"transit key {self.mount}/{self.name} at {self.url}{inside}"


def key_of(uri: KeyUri) -> TransitKey:
    """Take a URI apart.

    Raises:
        ConfigurationError: it names no server, mount and key.
    """
    uri.allow(_PARAMETERS)
    url = service_url(uri.address)
    path = _PATH.fullmatch(url.path)
    if not path:
        raise ConfigurationError(f"{shown(uri.address)} is not https://HOST:PORT/MOUNT/KEY")
    namespace = uri.parameters.get("namespace", "")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise ConfigurationError(f"{shown(namespace)} is no namespace")
    server = urlunsplit((url.scheme, url.netloc, "", "", ""))
    return TransitKey(server, path[1].rstrip("/"), path[2], namespace, uri.path("ca"))


class TransitClient:
    """Calls about one key. Thread-safe.

    Args:
        key: where it is.
        token: file with the token, read again when the server refuses it: an agent may have
            written a new one.
        timeout: seconds for connecting, and for an answer.
    """

    def __init__(self, key: TransitKey, token: Path, timeout: float) -> None:
        self.key = key
        self._token = token
        self._session = requests.Session()
        # no proxy, no netrc and no authorities out of the environment
        self._session.trust_env = False
        self._session.verify = str(key.ca) if key.ca else True
        # a redirect would take the token to another host
        self._client = hvac.Client(
            url=key.url,
            token="",
            verify=self._session.verify,
            timeout=timeout,
            allow_redirects=False,
            session=self._session,
            namespace=key.namespace or None,
        )

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401  (as hvac has it)
        """Return what the server answers to one of transit's methods.

        Raises:
            KeyRefusedError, KeyUnavailableError: the server does, or nobody answers.
            ConfigurationError: others can read the token.
        """
        act = getattr(self._client.secrets.transit, method)
        try:
            answer = self._authorised(
                lambda: act(name=self.key.name, mount_point=self.key.mount, **arguments)
            )
            return dict(answer["data"])
        except (answers.VaultError, requests.RequestException) as error:
            raise meaning(error, str(self.key)) from None
        except (KeyError, TypeError, ValueError) as error:
            raise KeyUnavailableError(
                f"{self.key}: the server's answer is none ({type(error).__name__})"
            ) from None

    def close(self) -> None:
        """Close the connections and forget the token."""
        self._client.token = ""
        self._session.close()

    def _authorised(self, act: Callable[[], Any]) -> Any:  # noqa: ANN401  (as hvac has it)
        if not self._client.token:
            self._read_token()
        used = self._client.token
        with suppress(answers.Forbidden, answers.Unauthorized):
            return act()
        self._read_token()
        if self._client.token == used:
            raise answers.Forbidden
        return act()

    def _read_token(self) -> None:
        with private_file.read_secret(self._token, "token file") as secret:
            # HTTP headers are text; docs/keys.md says that it isn't wiped
            self._client.token = bytes(secret.view).decode("ascii", "replace")


def meaning(error: Exception, place: str) -> SealcarError:
    """Return our error; of theirs it tells the kind, never the text."""
    name = type(error).__name__
    if isinstance(error, answers.InvalidRequest):
        return KeyRefusedError(
            f"{place}: the wrapped key doesn't belong to this package, or its version is retired"
        )
    if isinstance(error, answers.Forbidden | answers.Unauthorized):
        return KeyRefusedError(f"{place}: the token isn't valid, or has no right to this key")
    if isinstance(error, answers.InvalidPath):
        return KeyRefusedError(f"{place}: there is no such key")
    if isinstance(error, answers.VaultDown):
        return KeyUnavailableError(
            f"{place}: the server is sealed or in maintenance", retry_after=_RETRY
        )
    if isinstance(error, answers.VaultError):
        return KeyUnavailableError(
            f"{place}: the server has no answer ({name})", retry_after=_RETRY
        )
    return KeyUnavailableError(f"{place}: can't be reached ({name})", retry_after=_RETRY)
