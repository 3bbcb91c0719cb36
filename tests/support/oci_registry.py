"""The CNCF's registry of OCI artifacts, as the Makefile builds it, with TLS and a password."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.certificates import Authority
from support.processes import free_port, listens, running

from sealcar.oci import Access

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM: Final = Path(__file__).parents[2] / ".tools" / "registry"
USER: Final = "somebody"
PASSWORD: Final = "a-password-of-the-tests"  # noqa: S105  (of a registry that ends with the test)
# bcrypt, as `htpasswd -B` writes it: the only kind that the registry takes
_HASHED: Final = "$2b$04$WG.ez8mHwbW0yEmJd5XWAO1vzi8u59BznZ5kAqW6a.OwH/JZqhBOu"


def missing() -> str:
    """Say why there is no registry; empty: there is one."""
    return "" if PROGRAM.is_file() else "no registry: `make .tools/.registry` builds it with Go"


@dataclass(frozen=True)
class OciRegistry:
    """One that runs.

    Attributes:
        host: with its port.
        ca: who signed its certificate.
        data: where it keeps everything.
        folder: has a file of the password, and one as `docker login` writes it.
    """

    host: str
    ca: Path
    data: Path
    folder: Path

    @property
    def access(self) -> Access:
        return Access(username=USER, password=PASSWORD, ca=self.ca)

    @property
    def options(self) -> list[str]:
        """Return the options of a command that reaches it."""
        password = str(self.folder / "password")
        return ["--registry-ca", str(self.ca), "--username", USER, "--password-file", password]

    def blobs(self) -> dict[str, Path]:
        """Return where each blob lies, by its digest."""
        found = self.data.glob("docker/registry/v2/blobs/sha256/*/*/data")
        return {f"sha256:{path.parent.name}": path for path in found}


@contextmanager
def oci_registry(folder: Path) -> Iterator[OciRegistry]:
    """Run one that holds nothing."""
    port = free_port()
    authority = Authority()
    ca, data = folder / "ca.pem", folder / "data"
    ca.write_bytes(authority.certificate)
    certificate, key = authority.issue(addresses=("127.0.0.1",)).write(folder, "registry")
    users = folder / "users"
    users.write_text(f"{USER}:{_HASHED}\n")
    (folder / "password").write_text(f"{PASSWORD}\n")
    settings = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(data)}},
        "http": {
            "addr": f"127.0.0.1:{port}",
            "tls": {"certificate": str(certificate), "key": str(key)},
        },
        "auth": {"htpasswd": {"realm": "tests", "path": str(users)}},
    }
    configuration = folder / "registry.yml"
    configuration.write_text(json.dumps(settings))
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
    command = [str(PROGRAM), "serve", str(configuration)]
    with running(command, environment, folder / "registry.log", lambda: listens(port)):
        yield OciRegistry(f"127.0.0.1:{port}", ca, data, folder)
