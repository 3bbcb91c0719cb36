"""A bucket on this machine: versitygw where it was built, else moto, which is slow."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
from scale.counting import RequestLog
from scale.link import Link
from support.processes import free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator

GATEWAY: Final = Path(__file__).parents[2] / ".tools" / "versitygw"
NAME: Final = "models"
REGION: Final = "us-east-1"
_PORT: Final = 7070  # of a namespace in which nobody else listens
_LEAST: Final = 1 << 20
_READABLE: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{NAME}/*"],
        }
    ],
}


@dataclass(frozen=True)
class Bucket:
    """A bucket that is there.

    Attributes:
        server: what plays it, in words.
        endpoint: its URL.
        port: of the server.
        pid: of the server.
        link: that it is reached by.
        requests: what it was asked.
        access: name of a key for it.
        secret: of that key; of a server that ends with the block.
    """

    server: str
    endpoint: str
    port: int
    pid: int
    link: Link
    requests: RequestLog
    access: str
    secret: str = field(repr=False)

    def options(self, prefix: str) -> tuple[str, ...]:
        """Return those of `sealcar init` for a store that is in this bucket, below a prefix."""
        where = f"s3://{NAME}/{prefix}"
        service = ("--bucket-endpoint", self.endpoint, "--bucket-region", REGION, "--bucket-http")
        return ("--bucket", where, *service)

    def operator(self) -> Any:  # noqa: ANN401  (boto3 makes its classes as it runs)
        """Return a client that may do everything."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access,
            aws_secret_access_key=self.secret,
        )

    def payloads(self, prefix: str) -> dict[str, int]:
        """Return the size of each object that is large enough for a payload, by its path."""
        client = self.operator()
        try:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=NAME, Prefix=prefix)
            found = [each for page in pages for each in page.get("Contents", [])]
            return {
                f"{NAME}/{each['Key']}": each["Size"] for each in found if each["Size"] >= _LEAST
            }
        finally:
            client.close()


@contextmanager
def bucket(folder: Path, link: Link | None = None) -> Iterator[Bucket]:
    """Have an empty bucket whose objects anybody may read; what was in it goes with the block.

    Args:
        folder: an empty one, for its objects and logs.
        link: where the server runs; None: on loopback.
    """
    place = link or Link()
    port = _PORT if place.interface else free_port()
    access, secret = "bench", secrets.token_hex(20)
    log, requests = folder / "server.log", folder / "requests.log"
    requests.touch()
    if GATEWAY.exists():
        server = "versitygw"
        (folder / "objects").mkdir()
        command = [str(GATEWAY), "--port", f"{place.address}:{port}", "--region", REGION, "--quiet"]
        command += ["--keep-alive", "--access-log", str(requests), "posix", str(folder / "objects")]
    else:
        server, requests = "moto", log
        command = [sys.executable, "-m", "moto.server", "-H", place.address, "-p", str(port)]
    environment = {**os.environ, "ROOT_ACCESS_KEY_ID": access, "ROOT_SECRET_ACCESS_KEY": secret}
    command = [*place.command, *command]
    with running(command, environment, log, lambda: _listens(place.address, port)) as process:
        found = Bucket(
            server,
            f"http://{place.address}:{port}",
            port,
            process.pid,
            place,
            RequestLog(requests),
            access,
            secret,
        )
        client = found.operator()
        client.create_bucket(Bucket=NAME)
        # who stands in for a node reads without a key of its own
        client.put_bucket_policy(Bucket=NAME, Policy=json.dumps(_READABLE))
        client.close()
        found.requests.count()
        with _environment(AWS_ACCESS_KEY_ID=access, AWS_SECRET_ACCESS_KEY=secret):
            yield found


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Have variables in the environment, which daemons that are started meanwhile inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0
