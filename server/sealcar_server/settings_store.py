"""The section [store] of the daemon's settings."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from sealcar.names import shown
from sealcar_server import settings_kinds as kinds
from sealcar_server.settings_kinds import Kind
from sealcar_server.settings_spec import Spec

_BUCKET: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", re.ASCII)
# of a prefix: what needs no encoding anywhere, and no step that leads elsewhere
_STEP: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_LONGEST: Final = 256
_REGION: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class BucketName:
    """Where in S3 a store is.

    Attributes:
        name: of the bucket.
        prefix: of all of the store's keys, without slashes around it; "": none.
    """

    name: str
    prefix: str

    def __str__(self) -> str:
        """Render as the setting has it."""
        return f"s3://{self.name}/{self.prefix}".rstrip("/")


def bucket_name() -> Kind[BucketName | None]:
    """A bucket and a prefix, or none."""

    def read(value: object, _base: Path) -> BucketName | None:
        if value == "off":
            return None
        match = _BUCKET.fullmatch(value) if isinstance(value, str) else None
        if not match:
            raise ValueError(f"{shown(value)} is no bucket")
        prefix = (match[2] or "").strip("/")
        if len(prefix) > _LONGEST or not all(
            map(_STEP.fullmatch, prefix.split("/") * bool(prefix))
        ):
            raise ValueError(f"{shown(prefix)} is no prefix: steps of letters, digits, . _ and -")
        return BucketName(match[1], prefix)

    return Kind('"s3://BUCKET/PREFIX", or "off"', read)


def region_name() -> Kind[str]:
    """A region of S3."""

    def read(value: object, _base: Path) -> str:
        if not isinstance(value, str) or not _REGION.fullmatch(value):
            raise ValueError(f"{shown(value)} is none")
        return value

    return Kind('a region, such as "eu-central-1"', read)


@dataclass(frozen=True, kw_only=True)
class Store:
    """[store]: where packages are."""

    path: Annotated[
        Path, Spec(kinds.path(), "directory of the store; with a bucket, of what is here of it")
    ]
    read_only: Annotated[
        bool, Spec(kinds.boolean(), "true: nothing in the store is ever changed")
    ] = False
    bucket: Annotated[
        BucketName | None, Spec(bucket_name(), "where the store is instead, by the extra `s3`")
    ] = None
    endpoint: Annotated[
        str | None, Spec(kinds.endpoint(), "of the bucket's service, if that isn't AWS's own")
    ] = None
    region: Annotated[str, Spec(region_name(), "of the bucket")] = "us-east-1"
    allow_http: Annotated[
        bool, Spec(kinds.boolean(), "true: the endpoint may be one without TLS")
    ] = False
    ca: Annotated[
        Path | None,
        Spec(kinds.path(), "certificates, PEM, of who vouches for the endpoint besides the system"),
    ] = None
    credentials: Annotated[
        Path | None,
        Spec(
            kinds.secret(),
            "file of keys as AWS has it; else the environment, or the machine's identity",
        ),
    ] = None
    refresh: Annotated[
        float,
        Spec(kinds.duration(0.1, 3600), "how long a daemon may not notice what another one did"),
    ] = 10.0
    patience: Annotated[
        float, Spec(kinds.duration(1, 600), "how long what the bucket fails at is tried again")
    ] = 15.0
    abandoned_after: Annotated[
        float,
        Spec(kinds.duration(60, 31536000), "age of unfinished work that `sealcar prune` removes"),
    ] = 86400.0
    cache_size: Annotated[
        int, Spec(kinds.size(0), "disk that copies of payloads in the bucket may take here")
    ] = 10 << 30
