"""Where a key-encryption key is, as the configuration says it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from sealcar.errors import ConfigurationError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FILES: Final = frozenset({"file", "credential"})
RECIPIENT: Final = "recipient"  # its address is a path, too
_PLAIN: Final = "/:@[]"  # of what may stand in a query, what paths and URLs need
_PATHS: Final = ("module-path", "ca")  # parameters that name a file which has to be trusted


@dataclass(frozen=True)
class KeyUri:
    """A key's URI, taken apart: `SCHEME:ADDRESS?NAME=VALUE&NAME=VALUE`.

    Attributes:
        scheme: chooses the provider.
        address: a path for "file", "credential" and "recipient", absolute; else as it was written.
        parameters: by name, decoded.
        base: the directory that relative paths are of.
    """

    scheme: str
    address: str
    parameters: Mapping[str, str]
    base: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that the key depends on: who can write them has the key."""
        own = [Path(self.address)] if self.scheme in {*FILES, RECIPIENT} else []
        return (*own, *(self.base / self.parameters[name] for name in _PATHS if self.has(name)))

    @property
    def absolute(self) -> str:
        """Return the URI as it can be written in any directory's settings."""
        scheme = "file" if self.scheme in FILES else self.scheme
        values = {name: str(self.path(name)) for name in _PATHS if self.has(name)}
        query = "&".join(
            f"{name}={quote(value, safe=_PLAIN)}"
            for name, value in {**self.parameters, **values}.items()
        )
        return f"{scheme}:{self.address}" + (f"?{query}" if query else "")

    def has(self, name: str) -> bool:
        """Tell whether a parameter is given."""
        return name in self.parameters

    def path(self, name: str) -> Path | None:
        """Return a parameter that is a path."""
        return self.base / self.parameters[name] if self.has(name) else None

    def allow(self, names: Collection[str]) -> None:
        """Return if no other parameter is given.

        Raises:
            ConfigurationError: one is.
        """
        for name in self.parameters:
            if name not in names:
                allowed = ", ".join(sorted(names)) or "none"
                raise ConfigurationError(
                    f"{self.scheme}: parameter {shown(name)} is unknown; allowed: {allowed}"
                )

    def __str__(self) -> str:
        """Render scheme and address."""
        return f"{self.scheme}:{self.address}"


@dataclass(frozen=True)
class KeySource:
    """All that a provider is made from.

    Attributes:
        uri: where the key is.
        secret: file with what opens it: a passphrase, a PIN, a token; None: nothing is needed.
        timeout: seconds that one call may take.
    """

    uri: KeyUri
    secret: Path | None = None
    timeout: float = 5.0


def parse(text: str, base: Path) -> KeyUri:
    """Take a URI apart.

    Raises:
        ConfigurationError: it has no scheme, or a parameter that isn't NAME=VALUE or comes twice.
    """
    scheme, colon, rest = text.partition(":")
    if not (colon and scheme and rest):
        raise ConfigurationError(f"{shown(text)} is not SCHEME:ADDRESS")
    if scheme in FILES:
        return KeyUri(scheme, rest, {}, base)
    address, _, query = rest.partition("?")
    parameters: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        if not (equals and name and value) or name in parameters:
            raise ConfigurationError(f"{scheme}: parameter {shown(name)} must be NAME=VALUE, once")
        parameters[name] = unquote(value)
    return KeyUri(scheme, address, parameters, base)


def service_url(text: str) -> SplitResult:
    """Return a key service's URL.

    Raises:
        ConfigurationError: not one, or one that a key would reach unencrypted: plain HTTP is for
            this machine's loopback only.
    """
    try:
        url = urlsplit(text)
        url.port  # noqa: B018  (reading it checks it)
    except ValueError as error:
        raise ConfigurationError(f"{shown(text)} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigurationError(f"{shown(text)} is not an https:// URL")
    if url.username or url.password or url.query or url.fragment:
        raise ConfigurationError("a key service's URL holds host, port and path, nothing else")
    if url.scheme == "http" and not _loopback(url.hostname):
        raise ConfigurationError(
            f"{shown(text)} would send keys unencrypted: use https:// (http:// is for 127.0.0.1)"
        )
    return url


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may lead anywhere
