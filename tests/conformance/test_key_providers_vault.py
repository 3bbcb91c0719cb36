"""What only the transit engine can get wrong. OpenBao is the server."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.custodies import TIMEOUT
from support.processes import free_port, silent_server

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse
from sealcar_server.keys.vault_transit import TransitProvider
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.openbao import Bao

    from sealcar_server.keys.provider import WrappedKey

    Opener = Callable[..., TransitProvider]

_names = count(1)


@pytest.fixture
def name() -> str:
    return f"only-{next(_names)}"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("s.anything")
    return file


@pytest.fixture
def opener() -> Iterator[Opener]:
    made: list[TransitProvider] = []

    def opened(uri: str, token: Path | None) -> TransitProvider:
        provider = open_provider(KeySource(parse(uri, Path("/")), token, TIMEOUT))
        assert isinstance(provider, TransitProvider)
        made.append(provider)
        return provider

    yield opened
    for provider in made:
        provider.close()


def wrapped(provider: TransitProvider) -> WrappedKey:
    with SecretBuffer.copy_of(b"k" * 32) as key:
        return provider.wrap(key, b"context")


def test_vault_a_key_that_would_not_bind_the_package_is_never_used(
    bao: Bao, opener: Opener, name: str
) -> None:
    bao.make(name, derived=False)
    provider = opener(bao.uri(name), bao.token_file)
    with pytest.raises(KeyRefusedError, match=r"isn't a derived key.*derived=true"):
        wrapped(provider)
    with pytest.raises(KeyRefusedError, match="isn't a derived key"):
        provider.health()


@pytest.mark.parametrize("option", ["exportable", "allow_plaintext_backup"])
def test_vault_a_key_that_could_leave_the_server_is_refused(
    bao: Bao, opener: Opener, name: str, option: str
) -> None:
    bao.make(name, **{option: True})
    with pytest.raises(KeyRefusedError, match="is exportable"):
        wrapped(opener(bao.uri(name), bao.token_file))


def test_vault_a_retired_version_is_refused_and_a_rewrapped_key_is_not(
    bao: Bao, opener: Opener, name: str
) -> None:
    bao.make(name)
    provider = opener(bao.uri(name), bao.token_file)
    old = wrapped(provider)
    bao.transit.rotate_key(name)
    moved = provider.rewrap(old, b"context")
    assert (old.version, moved.version) == ("1", "2")
    bao.transit.update_key_configuration(name, min_decryption_version=2)
    with pytest.raises(KeyRefusedError, match="its version is retired"):
        provider.unwrap(old, b"context")
    provider.unwrap(moved, b"context").close()
    provider.health()
    assert provider.describe().versions == ("2",)


def test_vault_a_revoked_token_is_refused_until_the_file_holds_a_new_one(
    bao: Bao, opener: Opener, name: str
) -> None:
    bao.make(name)
    token = bao.new_token()
    provider = opener(bao.uri(name), bao.token_file)
    found = wrapped(provider)
    bao.revoke(token)
    with pytest.raises(KeyRefusedError, match="the token isn't valid") as caught:
        provider.unwrap(found, b"context")
    assert token not in str(caught.value)
    bao.new_token()
    provider.unwrap(found, b"context").close()


def test_vault_a_token_without_the_right_to_this_key_is_refused(
    bao: Bao, opener: Opener, name: str
) -> None:
    bao.make(name)
    bao.new_token("another")
    with pytest.raises(KeyRefusedError, match="has no right to this key"):
        opener(bao.uri(name), bao.token_file).health()
    bao.new_token()


def test_vault_a_key_or_engine_that_is_not_there_is_refused(bao: Bao, opener: Opener) -> None:
    with pytest.raises(KeyRefusedError, match="no such key"):
        opener(bao.uri("never-made"), bao.token_file).health()
    elsewhere = f"vault:{bao.url}/nowhere/kek"
    with pytest.raises(KeyRefusedError):
        opener(elsewhere, bao.token_file).health()


def test_vault_an_interruption_is_told_from_a_refusal(bao: Bao, opener: Opener, name: str) -> None:
    bao.make(name)
    provider = opener(bao.uri(name), bao.token_file)
    found = wrapped(provider)
    bao.seal()
    try:
        with pytest.raises(KeyUnavailableError, match="sealed or in maintenance") as caught:
            provider.unwrap(found, b"context")
        assert caught.value.retry_after
    finally:
        bao.unseal()
    provider.unwrap(found, b"context").close()


def test_vault_a_server_that_says_nothing_or_is_not_there_is_given_up_in_time(
    opener: Opener, token: Path
) -> None:
    with silent_server() as silent:
        for port in (silent, free_port()):
            provider = opener(f"vault:http://127.0.0.1:{port}/transit/kek", token)
            start = time.monotonic()
            with pytest.raises(KeyUnavailableError) as caught:
                provider.health()
            assert time.monotonic() - start < TIMEOUT + 1
            assert caught.value.retry_after


@contextmanager
def answering(status: int, body: bytes, location: str = "") -> Iterator[tuple[int, list[str]]]:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("X-Vault-Token", ""))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, seen
        server.shutdown()
        thread.join()


def test_vault_a_redirect_never_takes_the_token_elsewhere(opener: Opener, token: Path) -> None:
    with (
        answering(200, b"{}") as (elsewhere, stolen),
        answering(307, b"", f"http://127.0.0.1:{elsewhere}/") as (port, seen),
    ):
        with pytest.raises(KeyUnavailableError):
            opener(f"vault:http://127.0.0.1:{port}/transit/kek", token).health()
        assert seen == ["s.anything"]
        assert not stolen


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"nonsense", b'{"data": 1}', b'{"data": {}}'])
def test_vault_an_answer_that_is_none_ends_in_an_error_of_ours(
    opener: Opener, token: Path, body: bytes
) -> None:
    with answering(200, body) as (port, _), pytest.raises((KeyRefusedError, KeyUnavailableError)):
        opener(f"vault:http://127.0.0.1:{port}/transit/kek", token).health()


def test_vault_the_environment_gives_neither_address_nor_token_nor_proxy(
    bao: Bao, opener: Opener, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bao.make(name)
    for variable in ("VAULT_ADDR", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("VAULT_TOKEN", "attacker")
    opener(bao.uri(name), bao.token_file).health()


@pytest.mark.parametrize(
    ("address", "finding"),
    [
        ("here", "is not an https:// URL"),
        ("https://a", "is not https://HOST:PORT/MOUNT/KEY"),
        ("https://a/kek", "is not https://HOST:PORT/MOUNT/KEY"),
        ("https://a/transit/../kek", "is not https://HOST:PORT/MOUNT/KEY"),
        ("https://a/transit/%2e%2e/kek", "is not https://HOST:PORT/MOUNT/KEY"),
        ("https://a:x/transit/kek", "is not a URL"),
        ("http://vault.example/transit/kek", "would send keys unencrypted"),
        ("https://a/transit/kek?token=x", "'token' is unknown; allowed: ca, namespace"),
        ("https://a/transit/kek?namespace=a%0ab", "is no namespace"),
    ],
)
def test_vault_a_wrong_uri_says_what_is_wrong(address: str, finding: str, token: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_provider(KeySource(parse(f"vault:{address}", Path("/")), token))
    assert finding in str(caught.value)


def test_vault_a_token_is_needed_and_only_the_daemon_may_read_it(
    bao: Bao, opener: Opener, token: Path
) -> None:
    with pytest.raises(ConfigurationError, match="needs a token"):
        opener(bao.uri("kek"), None)
    token.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        opener(bao.uri("kek"), token).health()
