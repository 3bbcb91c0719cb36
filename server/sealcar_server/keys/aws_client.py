"""A client of AWS KMS that neither the environment nor a configuration file can lead elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlunsplit

import boto3
import botocore.session
from botocore.config import Config

from sealcar.errors import ConfigurationError
from sealcar.names import shown
from sealcar_server.keys.source import service_url

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar_server.keys.source import KeyUri

_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):\d{12}:(?P<id>(?:key|alias)/[A-Za-z0-9/_-]+)"
)
_ID: Final = re.compile(
    r"alias/[A-Za-z0-9/_-]+|mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_REGION: Final = re.compile(r"[a-z]{2,}(?:-[a-z0-9]+)+")
_PARAMETERS: Final = ("region", "endpoint", "profile", "ca")


class KmsClient(Protocol):
    """The calls that are made."""

    def encrypt(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401, D102  (as boto3 has it)
    def decrypt(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401, D102  (as boto3 has it)
    def re_encrypt(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401, D102  (as boto3 has it)
    def describe_key(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401, D102  (as boto3 has it)
    def close(self) -> None: ...  # noqa: D102  (as boto3 has it)


@dataclass(frozen=True)
class KmsKey:
    """Where a key is.

    Attributes:
        name: its ARN, id, or alias.
        region: of the key.
        endpoint: instead of the region's own; None: that one.
        profile: of the credentials file; None: the default one.
        ca: the authorities that vouch for the endpoint; None: those of the library.
    """

    name: str
    region: str
    endpoint: str | None
    profile: str | None
    ca: Path | None


def key_of(uri: KeyUri) -> KmsKey:
    """Take a URI apart.

    Raises:
        ConfigurationError: it names no key, or no region.
    """
    uri.allow(_PARAMETERS)
    arn = _ARN.fullmatch(uri.address)
    if not arn and not _ID.fullmatch(uri.address):
        raise ConfigurationError(
            f"{shown(uri.address)} is not the ARN, the id or the alias/NAME of a key"
        )
    region = uri.parameters.get("region", arn["region"] if arn else "")
    if not _REGION.fullmatch(region) or (arn and arn["region"] != region):
        raise ConfigurationError("aws-kms: needs a region: that of the ARN, or ?region=NAME")
    endpoint = uri.parameters.get("endpoint")
    if endpoint is not None:
        endpoint = urlunsplit(service_url(endpoint))
    return KmsKey(uri.address, region, endpoint, uri.parameters.get("profile"), uri.path("ca"))


def client_of(key: KmsKey, credentials: Path | None, timeout: float) -> KmsClient:
    """Make a client. Nobody is contacted.

    Args:
        key: decides region and endpoint.
        credentials: shared credentials file; None: the machine's or the container's identity.
        timeout: seconds for connecting, and for an answer.
    """
    session = botocore.session.Session(profile=key.profile)
    if credentials is not None:
        session.set_config_variable("credentials_file", str(credentials))
    # secrets don't belong into the environment, where every child and /proc has them
    session.get_component("credential_provider").remove("env")
    config = Config(
        connect_timeout=timeout,
        read_timeout=timeout,
        retries={"total_max_attempts": 2, "mode": "standard"},
        ignore_configured_endpoint_urls=True,
    )
    made: KmsClient = boto3.session.Session(botocore_session=session).client(
        "kms",
        region_name=key.region,
        endpoint_url=key.endpoint,
        # given, so that AWS_CA_BUNDLE can't name another
        verify=str(key.ca) if key.ca else True,
        config=config,
    )
    return made
