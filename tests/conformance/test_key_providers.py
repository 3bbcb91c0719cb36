"""Every key provider does the same for packages, whatever holds the key. Real services answer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import pytest
from support.custodies import (
    TIMEOUT,
    Custody,
    FileCustody,
    KmsCustody,
    PassphraseCustody,
    TokenCustody,
    TransitCustody,
)

from sealcar.errors import KeyRefusedError, KeyUnavailableError
from sealcar_server.keys.provider import WrappedKey, package_context, transit_context
from sealcar_server.keys.ring import KeyRing
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.moto_server import KmsServer
    from support.openbao import Bao
    from support.softhsm import SoftToken

    from sealcar_server.keys.provider import KeyProvider

KEY: Final = bytes(range(32))
CONTEXT: Final = package_context(b"p" * 16)
OTHERS: Final = {
    "another package": package_context(b"q" * 16),
    "another format": enc("sealcar v1 key wrap", "2", b"p" * 16),
    "another purpose": enc("sealcar v1 store key wrap", "1", b"p" * 16),
    "a package in transit": transit_context(b"p" * 16, "customer"),
    "a cut one": CONTEXT[:-1],
    "none": b"",
}
KINDS: Final = ("file", "passphrase", "pkcs11", "kms", "vault")


@pytest.fixture(params=KINDS)
def custody(request: pytest.FixtureRequest, tmp_path: Path) -> Custody:
    match request.param:
        case "file":
            return FileCustody(tmp_path)
        case "passphrase":
            return PassphraseCustody(tmp_path)
        case "pkcs11":
            token: SoftToken = request.getfixturevalue("soft_token")
            return TokenCustody(token, tmp_path)
        case "kms":
            server: KmsServer = request.getfixturevalue("kms_server")
            return KmsCustody(server, tmp_path)
        case _:
            bao: Bao = request.getfixturevalue("bao")
            return TransitCustody(bao, tmp_path)


@pytest.fixture
def provider(custody: Custody) -> Iterator[KeyProvider]:
    made = custody.open()
    yield made
    made.close()


def wrapped(provider: KeyProvider, context: bytes = CONTEXT) -> WrappedKey:
    with SecretBuffer.copy_of(KEY) as key:
        return provider.wrap(key, context)


def opened(provider: KeyProvider, found: WrappedKey, context: bytes = CONTEXT) -> bytes:
    with provider.unwrap(found, context) as key:
        return bytes(key.view)


def refused(provider: KeyProvider, found: WrappedKey, context: bytes = CONTEXT) -> str:
    messages = []
    for act in (provider.unwrap, provider.rewrap):
        with pytest.raises(KeyRefusedError) as caught:
            act(found, context)
        assert caught.value.retry_after is None
        messages.append(str(caught.value))
    return " ".join(messages)


def test_a_key_comes_back_for_its_own_package(custody: Custody, provider: KeyProvider) -> None:
    found = wrapped(provider)
    assert KEY not in found.blob
    assert opened(provider, found) == KEY
    assert provider.kind == custody.kind


def test_another_process_of_the_daemon_opens_it_too(
    custody: Custody, provider: KeyProvider
) -> None:
    found = wrapped(provider)
    again = custody.open()
    assert opened(again, found) == KEY
    again.close()


def test_the_same_key_is_never_wrapped_twice_alike(provider: KeyProvider) -> None:
    assert wrapped(provider).blob != wrapped(provider).blob


def test_a_wrapped_key_moved_elsewhere_is_refused(provider: KeyProvider) -> None:
    found = wrapped(provider)
    for context in OTHERS.values():
        refused(provider, found, context)
    assert opened(provider, found) == KEY


def test_a_wrapped_key_with_any_change_is_refused(provider: KeyProvider) -> None:
    found = wrapped(provider)
    size = len(found.blob)
    changed = [
        found.blob[:at] + bytes([found.blob[at] ^ 0x40]) + found.blob[at + 1 :]
        for at in (0, size // 2, size - 17, size - 1)
    ]
    for blob in (*changed, found.blob[:-1], found.blob[1:], found.blob + b"\0", b"", b"\0" * size):
        refused(provider, WrappedKey(found.version, blob))


def test_a_version_that_never_was_is_refused(provider: KeyProvider) -> None:
    found = wrapped(provider)
    for version in ("", "0", "77", "../1", "1:AAAA", "é", "9" * 400):
        refused(provider, WrappedKey(version, found.blob))


def test_another_key_of_the_same_service_opens_nothing(
    custody: Custody, provider: KeyProvider
) -> None:
    found = wrapped(provider)
    other = custody.another().open()
    other.health()
    refused(other, found)
    other.close()


def test_a_rotated_key_wraps_anew_opens_the_old_and_rewraps_for_the_same_package_only(
    custody: Custody, provider: KeyProvider
) -> None:
    old = wrapped(provider)
    custody.rotate()
    provider.health()
    new = wrapped(provider)
    moved = provider.rewrap(old, CONTEXT)
    assert opened(provider, old) == opened(provider, new) == opened(provider, moved) == KEY
    assert moved.blob != old.blob
    assert moved.version == new.version == provider.current_version()
    assert (new.version != old.version) == custody.counts
    refused(provider, moved, OTHERS["another package"])
    if custody.counts:
        assert provider.describe().versions == (old.version, new.version)


def test_a_version_that_an_operator_made_is_seen_by_whoever_asks_for_the_current_one(
    custody: Custody, provider: KeyProvider
) -> None:
    old = wrapped(provider)
    custody.rotate()
    if custody.kind == "file":
        provider.health()  # a file is read again at a look, not at each question
    current = provider.current_version()
    assert (current != old.version) == custody.counts
    assert wrapped(provider).version == current
    assert provider.rewrap(old, CONTEXT).version == current


def test_a_description_tells_where_the_key_is_and_nothing_secret(
    custody: Custody, provider: KeyProvider
) -> None:
    found = wrapped(provider)
    description = provider.describe()
    assert (description.kind, description.version) == (custody.kind, found.version)
    provider.health()
    shown = f"{description!r} {provider!r} {found!r} {provider.__dict__!r}"
    shown += refused(provider, found, b"")
    for secret in custody.secrets:
        assert secret not in shown
    assert repr(KEY)[2:20] not in shown


def test_a_key_that_was_taken_away_is_refused_not_awaited(
    custody: Custody, provider: KeyProvider
) -> None:
    wrapped(provider)
    custody.disable()
    expected = KeyUnavailableError if custody.kind == "file" else KeyRefusedError
    with pytest.raises(expected):
        provider.health()


def test_an_outage_is_said_in_time_and_over_without_a_new_provider(custody: Custody) -> None:
    first = custody.open()
    found = wrapped(first)
    first.close()
    provider = None if custody.kind == "file" else custody.open()
    with custody.outage():
        start = time.monotonic()
        with pytest.raises(KeyUnavailableError) as caught:
            (provider or custody.open()).health()
        assert time.monotonic() - start < TIMEOUT + 1
        if provider is not None:
            assert caught.value.retry_after
            with pytest.raises(KeyUnavailableError):
                provider.unwrap(found, CONTEXT)
    provider = provider or custody.open()
    assert eventually_opened(provider, found) == KEY
    provider.close()


def eventually_opened(provider: KeyProvider, found: WrappedKey) -> bytes:
    end = time.monotonic() + 20
    while True:
        try:
            return opened(provider, found)
        except KeyUnavailableError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_many_threads_share_a_provider(provider: KeyProvider) -> None:
    found = [wrapped(provider, package_context(bytes([n]) * 16)) for n in range(8)]
    wrong: list[object] = []

    def use(n: int) -> None:
        for _ in range(10):
            try:
                with provider.unwrap(found[n], package_context(bytes([n]) * 16)) as key:
                    if bytes(key.view) != KEY:
                        wrong.append(n)
            except Exception as error:  # noqa: BLE001  (reported by the assertion below)
                wrong.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_ring_over_it_serves_packages(custody: Custody) -> None:
    with KeyRing({"main": custody.open()}, lifetime=60) as ring, SecretBuffer.copy_of(KEY) as key:
        found = ring.wrap("main", key, CONTEXT)
        with ring.unwrap("main", found, CONTEXT) as again:
            assert bytes(again.view) == KEY
        (status,) = ring.status()
        assert (status.provider, status.available, status.version) == (
            custody.kind,
            True,
            found.version,
        )
