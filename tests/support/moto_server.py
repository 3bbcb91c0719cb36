"""AWS KMS as moto plays it, in a process of its own on loopback."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import boto3
from support.processes import free_port, listens, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import Popen

REGION: Final = "eu-central-1"
SECRET: Final = "test-secret-of-the-operator"  # noqa: S105  (of a server that ends with the test)


class KmsServer:
    """A running one, and what its operator may do."""

    def __init__(self, port: int, folder: Path, process: Popen[bytes]) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.credentials = folder / "aws-credentials"
        self.credentials.touch(0o600)
        self.credentials.write_text(
            f"[default]\naws_access_key_id = testing\naws_secret_access_key = {SECRET}\n"
        )
        self.operator: Any = boto3.client(
            "kms",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="operator",
            aws_secret_access_key="operator",  # noqa: S106  (any will do)
        )

    def make(self) -> str:
        """Make a key and return its ARN."""
        return str(self.operator.create_key()["KeyMetadata"]["Arn"])

    def uri(self, key: str) -> str:
        """Return the URI of a key."""
        region = "" if key.startswith("arn:") else f"region={REGION}&"
        return f"aws-kms:{key}?{region}endpoint={self.url}"


@contextmanager
def moto_server(folder: Path) -> Iterator[KmsServer]:
    """Run one with no keys."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    log = folder / "moto.log"
    with running(command, os.environ, log, lambda: listens(port)) as process:
        server = KmsServer(port, folder, process)
        yield server
        server.operator.close()
