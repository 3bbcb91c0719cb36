"""The client of an S3-compatible service. Its library is loaded only where a bucket is set."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore.store import ClientConfig, S3Config, S3Credential, S3Store

_CONNECT: Final = timedelta(seconds=5)
_SILENT: Final = timedelta(seconds=10)  # without a byte
_LONGEST: Final = timedelta(hours=1)  # one request: a part of an object that comes slowly


@dataclass(frozen=True)
class Place:
    """Where a store's objects are.

    Attributes:
        bucket: its name.
        prefix: of all keys, without a slash at its end; empty: none.
        endpoint: URL of the service; empty: AWS itself.
        region: of the bucket.
        allow_http: whether the endpoint may be one without TLS.
        authorities: PEM, of those who vouch for the endpoint besides the system's.
        credentials: gives them whenever they are asked for; None: the library looks for them in
            the environment, in a web identity, a container's or an instance's metadata.
        patience: seconds within which what fails for now is tried again.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    allow_http: bool = False
    authorities: bytes = field(default=b"", repr=False)
    credentials: Callable[[], S3Credential] | None = field(default=None, repr=False)
    patience: float = 30.0

    def __str__(self) -> str:
        """Render as the setting has it."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def connect(place: Place, *, retries: int = 0) -> S3Store:
    """Return a client; nothing is asked yet.

    Args:
        place: where.
        retries: how often the library itself repeats a request.

    Raises:
        ConfigurationError: the library isn't installed, or can't make one.
    """
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415  (only where a bucket is set)
        from obstore.store import S3Store  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            "store.bucket needs the extra s3: pip install 'sealcar[server,s3]'"
        ) from None
    options: ClientConfig = {
        "allow_http": place.allow_http,
        "connect_timeout": _CONNECT,
        "read_timeout": _SILENT,
        "timeout": _LONGEST,
        "user_agent": "sealcar",
    }
    if place.authorities:
        options["root_certificate"] = place.authorities
    config: S3Config = {"bucket": place.bucket, "region": place.region}
    if place.endpoint:
        # the environment could name this one, and it would come before the other
        config["endpoint"] = config["aws_endpoint_url_s3"] = place.endpoint
    try:
        return S3Store(
            prefix=place.prefix or None,
            config=config,
            client_options=options,
            retry_config={
                "max_retries": retries,
                "retry_timeout": timedelta(seconds=place.patience),
            },
            credential_provider=place.credentials,
        )
    except BaseError:
        # what it says may have a secret of the environment in it
        raise ConfigurationError(
            f"{place}: no client can be made: check store.endpoint, store.region and AWS_… of the"
            " environment"
        ) from None
