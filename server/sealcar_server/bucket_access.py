"""Opens the store that the settings name: a directory, or a bucket with one for copies of it."""

from __future__ import annotations

import configparser
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    ConfigurationError,
    ExhaustedError,
    KeyUnavailableError,
    StorageError,
)
from sealcar_server.hardening.ownership import require_private
from sealcar_server.keys import private_file
from sealcar_server.store.bucket.connection import Place
from sealcar_server.store.bucket.objects import Objects
from sealcar_server.store.bucket.options import Options
from sealcar_server.store.bucket.store import BucketStore
from sealcar_server.store.local import LocalStore
from sealcar_server.store.places import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from obstore.store import S3Credential

    from sealcar_server.metrics_bucket import BucketMetrics
    from sealcar_server.settings_store import Store as Section
    from sealcar_server.store.interface import Store

_MOST: Final = 1 << 16  # bytes of credentials, or of certificates
_KEPT: Final = timedelta(minutes=5)  # credentials, before their file is read again
_OF_BUCKETS: Final = ("endpoint", "ca", "credentials")


def open_store(section: Section, figures: BucketMetrics | None = None) -> Store:
    """Open the store.

    Args:
        section: of the settings.
        figures: are told of requests to a bucket, and of copies from there.

    Raises:
        ConfigurationError: a setting is wrong, or others can read or change what it names.
        UnknownFormatError: there is no store.
        DamagedError, StorageError: it can't be used.
    """
    check(section)
    if section.bucket is None:
        return LocalStore.open(section.path, read_only=section.read_only)
    if (section.path / IDENTITY).exists():
        raise ConfigurationError(
            f"[store] path {section.path} holds a store of its own; a bucket needs another"
            " directory for what is here of it, and packages get there by export and import"
        )
    place = place_of(section)
    options = Options(
        refresh=section.refresh,
        cache_size=section.cache_size,
        read_only=section.read_only,
        abandoned=section.abandoned_after,
        meter=figures,
    )
    with named(place):
        return BucketStore.open(section.path, Objects(place, figures), options)


@contextmanager
def named(place: Place) -> Iterator[None]:
    """Say where the bucket is in what fails: to operators, clients needn't know."""
    try:
        yield
    except (ExhaustedError, StorageError) as error:
        raise type(error)(f"{place}: {error.message}") from None


def check(section: Section) -> None:
    """Return if the settings of a bucket fit together.

    Raises:
        ConfigurationError: they don't.
    """
    if section.bucket is None:
        given = next((name for name in _OF_BUCKETS if getattr(section, name) is not None), None)
        if given is not None:
            raise ConfigurationError(f"[store] {given} is of a bucket, and bucket names none")
        return
    if (section.endpoint or "").startswith("http:") and not section.allow_http:
        raise ConfigurationError(
            f"[store] endpoint {section.endpoint} is without TLS: write https, or allow_http = true"
            " where nobody else is on the way; payloads are sealed, names and sizes aren't"
        )
    for name in ("ca", "credentials"):
        path: Path | None = getattr(section, name)
        if path is not None:
            require_private(path, f"[store] {name}")


def place_of(section: Section) -> Place:
    """Return where the bucket is, and with which credentials.

    Raises:
        ConfigurationError: others can read or change a file, or it isn't what it should be.
    """
    if section.bucket is None:
        raise ConfigurationError("[store] bucket names none")
    credentials = section.credentials
    if credentials is not None:
        # once now, so that a wrong file is told at the start
        _credentials(credentials)
    authorities = b""
    if section.ca is not None:
        with private_file.read_public(section.ca, "certificates", most=_MOST) as text:
            authorities = bytes(text.view)
    return Place(
        section.bucket.name,
        section.bucket.prefix,
        section.endpoint or "",
        section.region,
        allow_http=section.allow_http,
        authorities=authorities,
        credentials=_reader(credentials) if credentials is not None else None,
        patience=section.patience,
    )


def _reader(path: Path) -> Callable[[], S3Credential]:
    """Return what reads a file of credentials whenever those that were read are too old."""
    return lambda: _credentials(path)


def _credentials(path: Path) -> S3Credential:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with private_file.read(path, "credentials file", least=1, most=_MOST) as text:
            parser.read_string(bytes(text.view).decode())
        found = parser["default"]
        made: S3Credential = {
            "access_key_id": found["aws_access_key_id"],
            "secret_access_key": found["aws_secret_access_key"],
            "token": found.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + _KEPT,
        }
    except (configparser.Error, KeyError, UnicodeDecodeError):
        # what it says isn't repeated: it may be the secret
        raise ConfigurationError(
            f"[store] credentials {path}: needs [default] with aws_access_key_id and"
            " aws_secret_access_key"
        ) from None
    except KeyUnavailableError as error:
        raise ConfigurationError(f"[store] credentials: {error.message}") from None
    return made
