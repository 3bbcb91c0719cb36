"""What only AWS KMS can answer. A stub says what moto doesn't know; it checks the requests too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from botocore.stub import Stubber
from support.custodies import TIMEOUT
from support.processes import free_port, silent_server

from sealcar.errors import ConfigurationError, KeyRefusedError, KeyUnavailableError, SealcarError
from sealcar_server.keys.aws_kms import KmsProvider
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.keys.registry import open_provider
from sealcar_server.keys.source import KeySource, parse
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.moto_server import KmsServer

ID: Final = "1234abcd-12ab-34cd-56ef-1234567890ab"
ARN: Final = f"arn:aws:kms:eu-central-1:111122223333:key/{ID}"
WRAPPED: Final = WrappedKey(ID, b"wrapped")
CONTEXT: Final = b"\0package"


def opened(uri: str, credentials: Path | None) -> KmsProvider:
    made = open_provider(KeySource(parse(uri, Path("/")), credentials, TIMEOUT))
    assert isinstance(made, KmsProvider)
    return made


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    file = tmp_path / "credentials"
    file.touch(0o600)
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    return file


@pytest.fixture
def provider(credentials: Path) -> Iterator[KmsProvider]:
    made = opened(f"aws-kms:{ARN}", credentials)
    yield made
    made.close()


@pytest.fixture
def stub(provider: KmsProvider) -> Iterator[Stubber]:
    with Stubber(provider._client()) as stub:
        yield stub
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AccessDeniedException", KeyRefusedError),
        ("DisabledException", KeyRefusedError),
        ("ExpiredTokenException", KeyRefusedError),
        ("IncorrectKeyException", KeyRefusedError),
        ("InvalidCiphertextException", KeyRefusedError),
        ("KMSInvalidStateException", KeyRefusedError),
        ("NotFoundException", KeyRefusedError),
        ("UnrecognizedClientException", KeyRefusedError),
        ("DependencyTimeoutException", KeyUnavailableError),
        ("KMSInternalException", KeyUnavailableError),
        ("KeyUnavailableException", KeyUnavailableError),
        ("LimitExceededException", KeyUnavailableError),
        ("ThrottlingException", KeyUnavailableError),
        ("SomethingNew", KeyUnavailableError),
    ],
)
def test_kms_each_answer_is_told_by_who_must_act(
    provider: KmsProvider, stub: Stubber, code: str, kind: type[SealcarError]
) -> None:
    stub.add_client_error("decrypt", code, "text of theirs")
    with pytest.raises(kind) as caught:
        provider.unwrap(WRAPPED, CONTEXT)
    assert (caught.value.retry_after is None) == (kind is KeyRefusedError)
    assert "text of theirs" not in str(caught.value)


def test_kms_key_and_context_come_from_the_configuration_never_from_the_record(
    provider: KmsProvider, stub: Stubber
) -> None:
    expected: dict[str, Any] = {
        "KeyId": ARN,
        "CiphertextBlob": b"wrapped",
        "EncryptionContext": {"sealcar-context": CONTEXT.hex()},
    }
    stub.add_response("decrypt", {"Plaintext": b"k" * 32, "KeyId": ARN}, expected)
    provider.unwrap(WRAPPED, CONTEXT).close()
    for version in ("arn:aws:kms:eu-central-1:666666666666:key/x", "alias/attacker"):
        with pytest.raises(KeyRefusedError, match="another key"):
            provider.unwrap(WrappedKey(version, b"wrapped"), CONTEXT)


def test_kms_an_answer_of_another_size_is_no_key(provider: KmsProvider, stub: Stubber) -> None:
    stub.add_response("decrypt", {"Plaintext": b"k" * 31, "KeyId": ARN})
    with pytest.raises(KeyRefusedError, match="no key of ours"):
        provider.unwrap(WRAPPED, CONTEXT)


@pytest.mark.parametrize("state", ["Disabled", "PendingDeletion", "PendingImport", "Unavailable"])
def test_kms_health_refuses_a_key_that_is_not_enabled(
    provider: KmsProvider, stub: Stubber, state: str
) -> None:
    metadata = {"KeyId": ID, "Arn": ARN, "KeyState": state}
    stub.add_response("describe_key", {"KeyMetadata": metadata})
    with pytest.raises(KeyRefusedError, match=f"its state is {state}"):
        provider.health()


def test_kms_new_credentials_are_read_when_the_old_ones_are_refused(
    provider: KmsProvider, stub: Stubber
) -> None:
    before = provider._client()
    stub.add_client_error("decrypt", "ExpiredTokenException")
    with pytest.raises(KeyRefusedError, match="have expired"):
        provider.unwrap(WRAPPED, CONTEXT)
    assert provider._client() is not before


def test_kms_an_alias_leads_to_its_key(kms_server: KmsServer) -> None:
    arn = kms_server.make()
    kms_server.operator.create_alias(AliasName="alias/models", TargetKeyId=arn)
    provider = opened(kms_server.uri("alias/models"), kms_server.credentials)
    assert provider.current_version() == arn.rpartition("/")[2]
    with SecretBuffer(32) as key:
        provider.unwrap(provider.wrap(key, b"c"), b"c").close()
    provider.close()


def test_kms_a_key_that_never_was_is_refused(kms_server: KmsServer) -> None:
    provider = opened(kms_server.uri(ID), kms_server.credentials)
    with pytest.raises(KeyRefusedError, match="there is no such key"):
        provider.health()
    provider.close()


def test_kms_the_environment_gives_neither_credentials_nor_endpoint(
    kms_server: KmsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, credentials: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "attacker")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "attacker")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://203.0.113.1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://203.0.113.1")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "attacker.pem"))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    named = opened(f"aws-kms:{ARN}", credentials)
    client: Any = named._client()
    assert client.meta.endpoint_url == "https://kms.eu-central-1.amazonaws.com"
    named.close()
    empty = tmp_path / "empty"
    empty.touch(0o600)
    empty.write_text("\n")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    without = opened(kms_server.uri(kms_server.make()), empty)
    with pytest.raises(KeyUnavailableError, match="NoCredentialsError"):
        without.health()
    without.close()


def test_kms_a_service_that_says_nothing_or_is_not_there_is_given_up_in_time(
    credentials: Path,
) -> None:
    with silent_server() as silent:
        for port in (silent, free_port()):
            provider = opened(f"aws-kms:{ARN}?endpoint=http://127.0.0.1:{port}", credentials)
            start = time.monotonic()
            with pytest.raises(KeyUnavailableError) as caught:
                provider.unwrap(WRAPPED, CONTEXT)
            assert time.monotonic() - start < TIMEOUT + 1
            assert caught.value.retry_after
            provider.close()


@pytest.mark.parametrize(
    ("address", "finding"),
    [
        ("here", "is not the ARN, the id or the alias/NAME"),
        ("alias/models", "needs a region"),
        (f"{ARN}?region=us-east-1", "needs a region: that of the ARN"),
        (f"{ARN}?endpoint=http://203.0.113.1", "would send keys unencrypted"),
        (f"{ARN}?endpoint=http://localhost", "would send keys unencrypted"),
        (f"{ARN}?endpoint=ftp://a", "is not an https:// URL"),
        (f"{ARN}?endpoint=https://user:word@a", "host, port and path, nothing else"),
        (f"{ARN}?secret=x", "'secret' is unknown; allowed: ca, endpoint, profile, region"),
    ],
)
def test_kms_a_wrong_uri_says_what_is_wrong(address: str, finding: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opened(f"aws-kms:{address}", None)
    assert finding in str(caught.value)


def test_kms_credentials_that_others_can_read_are_refused(credentials: Path) -> None:
    credentials.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        opened(f"aws-kms:{ARN}", credentials)
