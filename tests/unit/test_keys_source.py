from __future__ import annotations

from pathlib import Path

import pytest

from sealcar.errors import ConfigurationError
from sealcar_server.keys.source import KeyUri, parse, service_url

BASE = Path("/etc/sealcar")


def test_a_uri_is_taken_apart_once_and_decoded() -> None:
    found = parse("pkcs11:token=a;object=b?module-path=lib%2Fx.so&a=%31", BASE)
    assert found == KeyUri(
        "pkcs11", "token=a;object=b", {"module-path": "lib/x.so", "a": "1"}, BASE
    )


def test_everything_that_a_key_depends_on_is_named_for_the_check_of_its_owner() -> None:
    assert parse("file:/srv/kek?odd", BASE).files == (Path("/srv/kek?odd"),)
    assert parse("pkcs11:a?module-path=/usr/lib/m.so", BASE).files == (Path("/usr/lib/m.so"),)
    assert parse("vault:https://a/b/c?ca=ca.pem", BASE).files == (BASE / "ca.pem",)
    assert parse("aws-kms:alias/a?region=b", BASE).files == ()


@pytest.mark.parametrize(
    ("text", "absolute"),
    [
        ("file:/srv/kek", "file:/srv/kek"),
        ("credential:/run/credentials/kek", "file:/run/credentials/kek"),
        ("vault:https://a/b/c", "vault:https://a/b/c"),
        ("vault:https://a/b/c?ca=my%20ca.pem", "vault:https://a/b/c?ca=/etc/sealcar/my%20ca.pem"),
        ("aws-kms:alias/a?endpoint=https://b:1", "aws-kms:alias/a?endpoint=https://b:1"),
        ("lab:x?y=a%26b%3Dc", "lab:x?y=a%26b%3Dc"),
    ],
)
def test_a_uri_can_be_written_into_settings_of_any_directory(text: str, absolute: str) -> None:
    found = parse(text, BASE)
    assert found.absolute == absolute
    again = parse(absolute, Path("/elsewhere"))
    assert again.files == found.files
    assert again.path("ca") == found.path("ca")


@pytest.mark.parametrize(
    "text", ["", ":", "file", "file:", ":x", "vault:a?b", "vault:a?=b", "vault:a?b="]
)
def test_what_is_no_uri_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse(text, BASE)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8200", "http://[::1]:1", "https://a.example/x"])
def test_keys_travel_encrypted_or_not_at_all(url: str) -> None:
    assert service_url(url).geturl() == url


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.1", "http://localhost", "http://127.0.0.1.example", "https://", "https://[x"],
)
def test_a_url_that_would_send_keys_in_the_clear_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        service_url(url)
