"""How a registry is reached, and as whom."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealcar.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Access:
    """How a registry is reached, and as whom.

    Attributes:
        username, password: empty: what `docker login` left, or nobody.
        config: the file where that is; None: where docker has it ($DOCKER_CONFIG, ~/.docker).
        ca: who signs the registry's certificate, PEM; None: what requests trusts (certifi).
        plain_http: no TLS. Everybody on the way reads credentials, and may change what comes; he
            can't change it unnoticed.
        timeout: seconds that the registry may be silent.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    config: Path | None = None
    ca: Path | None = None
    plain_http: bool = False
    timeout: float = 60.0

    def check(self) -> None:
        """Check that the certificate authorities can be read.

        Raises:
            ConfigurationError: they can't.
        """
        if self.ca is None:
            return
        try:
            ssl.create_default_context(cafile=self.ca)
        except OSError as error:  # those of ssl are, too
            what = "no PEM" if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigurationError(f"{self.ca} holds no certificates: {what}") from error
