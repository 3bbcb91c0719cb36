"""What only a PKCS#11 token can get wrong. SoftHSM2 is the token."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pkcs11
import pytest
from support.custodies import TIMEOUT
from support.softhsm import LIBRARY, PIN, TOKEN

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys.pkcs11_token import TokenProvider
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.softhsm import SoftToken

    Opener = Callable[..., TokenProvider]

_labels = count(1)


@pytest.fixture
def label() -> str:
    return f"only-{next(_labels)}"


@pytest.fixture
def opener(soft_token: SoftToken) -> Iterator[Opener]:
    made: list[TokenProvider] = []

    def opened(uri: str, pin: Path | None = soft_token.pin_file) -> TokenProvider:
        provider = open_provider(KeySource(parse(uri, Path("/")), pin, TIMEOUT))
        assert isinstance(provider, TokenProvider)
        made.append(provider)
        return provider

    yield opened
    for provider in made:
        provider.close()


def private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def test_pkcs11_a_wrong_pin_is_tried_once_so_that_the_token_does_not_lock(
    soft_token: SoftToken, opener: Opener, label: str, tmp_path: Path
) -> None:
    soft_token.make(label, "01")
    wrong = opener(soft_token.uri(label), private(tmp_path / "pin", "9999"))
    for _ in range(30):
        with pytest.raises(KeyRefusedError, match="refuses the PIN") as caught:
            wrong.health()
        assert "9999" not in str(caught.value)
    opener(soft_token.uri(label)).health()


def test_pkcs11_a_key_that_could_leave_the_token_is_refused(
    soft_token: SoftToken, opener: Opener, label: str
) -> None:
    soft_token.make(label, "01", extractable=True)
    with pytest.raises(KeyRefusedError, match="could leave the token"):
        opener(soft_token.uri(label)).health()


def test_pkcs11_a_short_key_and_two_of_one_version_are_refused(
    soft_token: SoftToken, opener: Opener, label: str
) -> None:
    soft_token.make(label + "a", "01", bits=128)
    with pytest.raises(KeyRefusedError, match="no AES-256 key"):
        opener(soft_token.uri(label + "a")).health()
    soft_token.make(label, "01")
    soft_token.make(label, "0001")
    with pytest.raises(KeyRefusedError, match="two keys have the id 01"):
        opener(soft_token.uri(label)).health()


def test_pkcs11_the_uri_may_name_the_version_that_wraps(
    soft_token: SoftToken, opener: Opener, label: str
) -> None:
    for version in ("01", "02", "0100"):
        soft_token.make(label, version)
    pinned = opener(soft_token.uri(label, ";id=%02"))
    assert pinned.current_version() == "02"
    assert pinned.describe().versions == ("01", "02", "100")
    newest = opener(soft_token.uri(label, ";type=secret-key"))
    assert newest.current_version() == "100"
    with SecretBuffer(32) as key:
        newest.unwrap(pinned.wrap(key, b"c"), b"c").close()
        pinned.unwrap(newest.wrap(key, b"c"), b"c").close()
    with pytest.raises(KeyRefusedError, match="no version '07'"):
        opener(soft_token.uri(label, ";id=%07")).current_version()


def test_pkcs11_two_keys_of_one_token_share_its_one_login(
    soft_token: SoftToken, opener: Opener, label: str
) -> None:
    soft_token.make(label, "01")
    soft_token.make(label + "b", "01")
    first, second = opener(soft_token.uri(label)), opener(soft_token.uri(label + "b"))
    first.health()
    second.health()
    first.close()
    with SecretBuffer(32) as key:
        second.unwrap(second.wrap(key, b"c"), b"c").close()


def test_pkcs11_a_login_that_the_token_forgot_is_made_again(
    soft_token: SoftToken, opener: Opener, label: str
) -> None:
    soft_token.make(label, "01")
    provider = opener(soft_token.uri(label))
    with SecretBuffer.copy_of(b"k" * 32) as key:
        wrapped = provider.wrap(key, b"c")
    pkcs11.lib(str(LIBRARY)).reinitialize()
    with provider.unwrap(wrapped, b"c") as again:
        assert bytes(again.view) == b"k" * 32


def test_pkcs11_a_token_that_is_not_there_is_waited_for(
    soft_token: SoftToken, opener: Opener
) -> None:
    uri = soft_token.uri("any").replace(TOKEN.split()[1], "elsewhere")
    with pytest.raises(KeyUnavailableError, match="no such token now") as caught:
        opener(uri).health()
    assert caught.value.retry_after


def test_pkcs11_a_destroyed_key_is_refused_and_one_made_later_found(
    soft_token: SoftToken, opener: Opener, label: str
) -> None:
    soft_token.make(label, "01")
    provider = opener(soft_token.uri(label))
    with SecretBuffer(32) as key:
        wrapped = provider.wrap(key, b"c")
    soft_token.destroy(label)
    with pytest.raises(KeyRefusedError, match="no such key"):
        provider.health()
    with pytest.raises(KeyRefusedError):
        provider.unwrap(wrapped, b"c")
    soft_token.make(label, "02")
    assert provider.current_version() == "02"


def test_pkcs11_a_library_that_is_none_is_a_wrong_setting(opener: Opener) -> None:
    for module in (__file__, "/nowhere.so"):
        with pytest.raises(ConfigurationError, match="can't be loaded"):
            opener(f"pkcs11:token=a;object=b?module-path={module}").health()


@pytest.mark.parametrize(
    ("uri", "finding"),
    [
        ("pkcs11:token=a;object=b", "a PKCS#11 key is"),
        ("pkcs11:object=b?module-path=/m", "a PKCS#11 key is"),
        ("pkcs11:token=a?module-path=/m", "a PKCS#11 key is"),
        ("pkcs11:token=a;token=b;object=c?module-path=/m", "'token' must be one of"),
        ("pkcs11:token=a;slot=1;object=c?module-path=/m", "'slot' must be one of"),
        ("pkcs11:token=a;object=b;type=private?module-path=/m", "type=secret-key"),
        (f"pkcs11:token=a;object=b?module-path=/m&pin-value={PIN}", "a PIN is never in the URI"),
        ("pkcs11:token=a;object=b?module-path=/m&pin-source=file:/p", "a PIN is never in the URI"),
        ("pkcs11:token=a;object=b?module-path=/m&x=y", "'x' is unknown; allowed: module-path"),
    ],
)
def test_pkcs11_a_wrong_uri_says_what_is_wrong_and_shows_no_pin(uri: str, finding: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_provider(KeySource(parse(uri, Path("/"))))
    assert finding in str(caught.value)
    assert PIN not in str(caught.value)
