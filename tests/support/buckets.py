"""S3 as moto plays it, in a process of its own on loopback, and what can go wrong on the way."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from support.processes import free_port, listens, running

from sealcar_server.store.bucket.connection import Place
from sealcar_server.store.bucket.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from ssl import SSLContext

    from sealcar_server.store.bucket.asking import Observer

REGION: Final = "eu-central-1"
ID: Final = "AKIDSEALCARTEST"
SECRET: Final = "secret-of-the-bucket-0123456789"  # noqa: S105  (of a server that ends with the test)
_REFUSALS: Final = {
    "503": b"",
    "409": b"<Error><Code>ConditionalRequestConflict</Code></Error>",
}
_counted: Final = itertools.count()


class BucketServer:
    """A running one.

    Attributes:
        operator: a client of another library, for looking and for tampering.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.credentials = folder / "bucket-credentials"
        self.credentials.touch(0o600)
        self.credentials.write_text(
            f"[default]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n"
        )
        self.operator: Any = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=ID,
            aws_secret_access_key=SECRET,
            config=Config(retries={"max_attempts": 1}),
        )

    def make(self) -> str:
        """Make a bucket and return its name."""
        name = f"models-{next(_counted)}"
        self.operator.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        return name

    def place(self, bucket: str, *, port: int = 0, patience: float = 10.0) -> Place:
        """Return where a store of prefix "a/store" is, by way of another port if one is given."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return Place(
            bucket,
            "a/store",
            endpoint,
            REGION,
            allow_http=True,
            credentials=lambda: {
                "access_key_id": ID,
                "secret_access_key": SECRET,
                "expires_at": None,
            },
            patience=patience,
        )

    def objects(self, bucket: str, observer: Observer | None = None) -> Objects:
        """Return the objects of a store in a bucket."""
        return Objects(self.place(bucket), observer)

    def options(self, bucket: str, port: int = 0, authority: Path | None = None) -> tuple[str, ...]:
        """Return the options of `sealcar init` for a store there.

        Args:
            bucket: its name.
            port: to ask instead of the server's.
            authority: PEM, of who vouches for that; None: it has no TLS.
        """
        where = f"http://127.0.0.1:{port or self.port}"
        return (
            f"--bucket=s3://{bucket}/a/store",
            f"--bucket-endpoint={f'https://localhost:{port}' if authority else where}",
            f"--bucket-region={REGION}",
            f"--bucket-credentials=file:{self.credentials}",
            f"--bucket-ca={authority}" if authority else "--bucket-http",
        )

    def keys(self, bucket: str) -> list[str]:
        """Return all keys of a bucket."""
        pages = self.operator.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def content(self, bucket: str, key: str) -> bytes:
        """Return an object's bytes."""
        return bytes(self.operator.get_object(Bucket=bucket, Key=key)["Body"].read())


@contextmanager
def bucket_server(folder: Path) -> Iterator[BucketServer]:
    """Run one without buckets."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    log = folder / "moto-s3.log"
    with running(command, os.environ, log, lambda: listens(port)):
        server = BucketServer(port, folder)
        yield server
        server.operator.close()


def no_trouble(_method: str, _path: str) -> str:
    """Pass every request on."""
    return ""


class Trouble:
    """Passes requests on to a server, but for those that trouble was made for.

    Args:
        port: of the server.
        tls: makes it a server with TLS.

    Attributes:
        port: to ask instead of the server's.
        seen: method and path of each request.
        wanted: says what becomes of a request, by its method and path: "" (passed on), "503", "409"
            (as of two writes at once), "lost" (done, the answer is not sent), "cut" (half of the
            body), "short" (half of it, and its length says so), "shifted" (from another offset),
            "slow:SECONDS".
    """

    def __init__(self, port: int, tls: SSLContext | None = None) -> None:
        self.seen: list[tuple[str, str]] = []
        self.wanted: Callable[[str, str], str] = no_trouble
        trouble = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                trouble._pass_on(self, port)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do  # noqa: N815  (the base class's names)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def first(self, count: int, what: str, method: str = "") -> None:
        """Make one kind of trouble for the next requests (of a method), then none."""
        left = itertools.count()

        def wanted(asked: str, _path: str) -> str:
            return what if method in {"", asked} and next(left) < count else ""

        self.wanted = wanted

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _pass_on(self, handler: BaseHTTPRequestHandler, port: int) -> None:
        size = int(handler.headers.get("Content-Length", 0))
        body = handler.rfile.read(size)
        self.seen.append((handler.command, handler.path))
        what = self.wanted(handler.command, handler.path)
        if what in _REFUSALS:
            handler.send_response(int(what))
            handler.send_header("Content-Length", str(len(_REFUSALS[what])))
            handler.end_headers()
            handler.wfile.write(_REFUSALS[what])
            return
        if what.startswith("slow:"):
            threading.Event().wait(float(what[5:]))
        # the Host that was signed stays
        upstream = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            upstream.request(handler.command, handler.path, body, dict(handler.headers.items()))
            answer = upstream.getresponse()
            data = answer.read()
            if what == "lost":
                handler.close_connection = True
                return
            data, headers = _changed(what, data, dict(answer.getheaders()))
            handler.send_response(answer.status)
            for name, value in headers.items():
                if name.lower() not in {"transfer-encoding", "connection", "date", "server"}:
                    handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data[: len(data) // 2] if what == "cut" else data)
            if what == "cut":
                handler.close_connection = True
        finally:
            upstream.close()


def _changed(what: str, data: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """Return an answer as it is after a trouble."""
    if what == "short":
        data = data[: len(data) // 2]
        headers["Content-Length"] = str(len(data))
    if what == "shifted" and "Content-Range" in headers:
        unit, _, rest = headers["Content-Range"].partition(" ")
        span, _, whole = rest.partition("/")
        first, last = map(int, span.split("-"))
        headers["Content-Range"] = f"{unit} {first + 1}-{last + 1}/{whole}"
    return data, headers
