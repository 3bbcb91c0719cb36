"""A registry of OCI artifacts that does what a test has it do, and says what it heard."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_MANIFESTS: Final = re.compile(r"/v2/([a-z0-9/-]+)/manifests/([^/]+)")
_BLOBS: Final = re.compile(r"/v2/[a-z0-9/-]+/blobs/(sha256:[0-9a-f]{64})")
_UPLOADS: Final = re.compile(r"/v2/[a-z0-9/-]+/blobs/uploads/")
_UPLOAD: Final = re.compile(r"(?:/v2/[a-z0-9/-]+/blobs)?/uploads/[0-9]+")


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Heard:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]


class Talk(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer; `_` in the name of a header stands for `-`."""
        self.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in ({"Content-Length": str(len(body))} | named).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        """Return what came with the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def hang_up(self) -> None:
        """Close the connection, whatever was promised."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)

    def log_message(self, *_: object) -> None:
        pass

    def _go(self) -> None:
        registry = self.server.registry
        registry.heard.append(Heard(self.command, self.path, dict(self.headers)))
        for method, text, lie in list(registry.lies):
            if method == self.command and text in self.path and lie(self) is not False:
                return
        honest(self, registry)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _go  # noqa: N815  (of the library)


# tells an answer of its own; or False: the honest one is given
Lie: TypeAlias = "Callable[[Talk], object]"


@dataclass
class FakeRegistry:
    """One that runs.

    Attributes:
        host: with its port.
        manifests: by repository and tag or digest.
        blobs: by digest, of all repositories.
        heard: every request, in order.
        lies: method, a part of the path, and what is said there in place of an honest answer.
    """

    host: str
    scheme: str = "http"
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    lies: list[tuple[str, str, Lie]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}"

    def put(self, repository: str, tag: str, manifest: Any) -> str:  # noqa: ANN401  (any JSON, or bytes)
        """Take an artifact's manifest; return its digest."""
        data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        for name in (tag, digest_of(data)):
            self.manifests[repository, name] = data
        return digest_of(data)

    def blob(self, data: bytes) -> str:
        """Take a blob; return its digest."""
        self.blobs[digest_of(data)] = data
        return digest_of(data)

    def lie(self, method: str, text: str) -> Callable[[Lie], Lie]:
        """Have requests of a path that holds this text answered otherwise."""

        def given(lie: Lie) -> Lie:
            self.lies.append((method, text, lie))
            return lie

        return given


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    registry: FakeRegistry

    def handle_error(self, *_: object) -> None:
        pass  # whoever was lied to hangs up


def honest(talk: Talk, registry: FakeRegistry) -> None:
    """Answer as a registry does."""
    parts = urlsplit(talk.path)
    if found := _MANIFESTS.fullmatch(parts.path):
        _manifest(talk, registry, found[1], found[2])
    elif found := _BLOBS.fullmatch(parts.path):
        _blob(talk, registry.blobs.get(found[1]))
    elif _UPLOADS.fullmatch(parts.path) and talk.command == "POST":
        talk.body()
        talk.say(202, Location=f"{parts.path}{len(registry.heard)}?state=secret-of-an-upload")
    elif _UPLOAD.fullmatch(parts.path) and talk.command == "PUT":
        data = talk.body()
        (told,) = parse_qs(parts.query)["digest"]
        if told != digest_of(data):
            _refuse(talk, 400, "DIGEST_INVALID")
            return
        registry.blob(data)
        talk.say(201)
    elif talk.command == "DELETE":
        talk.say(204)
    else:
        _refuse(talk, 404, "NAME_UNKNOWN")


def _manifest(talk: Talk, registry: FakeRegistry, repository: str, name: str) -> None:
    if talk.command == "PUT":
        digest = registry.put(repository, name, talk.body())
        talk.say(201, Docker_Content_Digest=digest)
        return
    data = registry.manifests.get((repository, name))
    if data is None:
        _refuse(talk, 404, "MANIFEST_UNKNOWN")
        return
    talk.say(200, data, Content_Type=MANIFEST, Docker_Content_Digest=digest_of(data))


def _blob(talk: Talk, data: bytes | None) -> None:
    if data is None:
        _refuse(talk, 404, "BLOB_UNKNOWN")
        return
    wanted = talk.headers.get("Range", "")
    if not wanted:
        talk.say(200, data)
        return
    at = int(wanted.removeprefix("bytes=").removesuffix("-"))
    talk.say(206, data[at:], Content_Range=f"bytes {at}-{len(data) - 1}/{len(data)}")


def _refuse(talk: Talk, status: int, code: str) -> None:
    talk.say(status, json.dumps({"errors": [{"code": code, "message": "no"}]}).encode())


@contextmanager
def fake_registry(certificate: tuple[Path, Path] | None = None) -> Iterator[FakeRegistry]:
    """Run one, with TLS if it has a certificate and its key."""
    server = _Server(("127.0.0.1", 0), Talk)
    server.registry = FakeRegistry(f"127.0.0.1:{server.server_port}")
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.registry.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
