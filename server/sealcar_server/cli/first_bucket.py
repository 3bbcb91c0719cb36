"""The bucket of a first daemon: a store is founded there, or the one that is there is joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sealcar.errors import AlreadyExistsError, ConfigurationError, NotFoundError
from sealcar_server import bucket_access
from sealcar_server import settings_kinds as kinds
from sealcar_server.service.store_key import check_key, new_identity
from sealcar_server.settings_store import Store, bucket_name, region_name
from sealcar_server.store.bucket.objects import Objects
from sealcar_server.store.bucket.store import BucketStore
from sealcar_server.store.identity import MAX_IDENTITY, StoreIdentity
from sealcar_server.store.places import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar_server.keys.ring import KeyRing

T = TypeVar("T")
_LOCAL: Final = "store"
_SETTING_OF: Final = {
    "--bucket": "bucket",
    "--bucket-endpoint": "endpoint",
    "--bucket-region": "region",
    "--bucket-credentials": "credentials",
    "--bucket-ca": "ca",
    "--bucket-http": "allow_http",
}


class FirstBucket:
    """What was asked for.

    Args:
        section: the settings of the store.

    Raises:
        ConfigurationError: they don't fit together.
        StorageError: the bucket can't be reached.
        NotAuthenticError, UnknownFormatError: what is there is no store, or a newer release's.
    """

    def __init__(self, section: Store) -> None:
        self._section = section
        bucket_access.check(section)
        self._objects = Objects(bucket_access.place_of(section))
        self.identity = self._found()

    @classmethod
    def asked(cls, options: Mapping[str, str | bool | None]) -> FirstBucket | None:
        """Read the command's options of buckets; relative paths are of the current directory.

        Returns:
            None: there is no bucket.

        Raises:
            ConfigurationError: one is wrong; besides, as the class raises.
        """
        given = {f"--{name.replace('_', '-')}": value for name, value in options.items() if value}
        if "--bucket" not in given:
            if given:
                raise ConfigurationError(f"{min(given)} needs --bucket")
            return None
        kind_of: dict[str, kinds.Kind[Any]] = {
            "--bucket": bucket_name(),
            "--bucket-endpoint": kinds.endpoint(),
            "--bucket-region": region_name(),
            "--bucket-credentials": kinds.secret(),
            "--bucket-ca": kinds.path(),
            "--bucket-http": kinds.boolean(),
        }
        read: dict[str, Any] = {
            _SETTING_OF[option]: _read(kind_of[option], option, value)
            for option, value in given.items()
        }
        return cls(Store(path=Path(_LOCAL), **read))

    @property
    def alias(self) -> str:
        """Of the key-encryption key, as the store names it."""
        return self.identity.kek_alias if self.identity else "default"

    def settings(self) -> str:
        """Return the keys of [store] besides the path."""
        section = self._section
        lines = [f"bucket = {json.dumps(str(section.bucket))}"]
        if section.endpoint:
            lines.append(f"endpoint = {json.dumps(section.endpoint)}")
        lines.append(f"region = {json.dumps(section.region)}")
        if section.allow_http:
            lines.append("allow_http = true")
        if section.ca is not None:
            lines.append(f"ca = {json.dumps(str(section.ca))}")
        if section.credentials is not None:
            lines.append(f"credentials = {json.dumps(f'file:{section.credentials}')}")
        return "\n".join(lines) + "\n"

    def said(self) -> str:
        """Return what was done, for whoever asked."""
        did = "joined" if self.identity else "founded"
        return f"{self._section.bucket}  the store, {did}; store/ is for copies of it"

    def refuse_new_key(self) -> None:
        """Return unless there is a store, which no new key could open.

        Raises:
            ConfigurationError: there is one.
        """
        if self.identity is not None:
            raise ConfigurationError(
                f"{self._section.bucket} holds a store: name its key with --key-uri (it calls it"
                f" {self.alias}), or give this one another prefix"
            )

    def found(self, ring: KeyRing) -> None:
        """Found a store, or make sure that the key opens the one that is there.

        Raises:
            AlreadyExistsError: another one was founded there just now.
            KeyRefusedError, KeyUnavailableError: the key isn't the store's, or can't be had.
            ExhaustedError, StorageError: the bucket can't be written.
        """
        if self.identity is not None:
            check_key(self.identity, ring)
            return
        try:
            BucketStore.create(self._objects, new_identity(ring, self.alias))
        except AlreadyExistsError as error:
            raise AlreadyExistsError(f"{error.message}: begin again to join it") from None

    def _found(self) -> StoreIdentity | None:
        try:
            with bucket_access.named(self._objects.place):
                return StoreIdentity.parse(self._objects.read(IDENTITY, MAX_IDENTITY)[0])
        except NotFoundError:
            return None


def _read(kind: kinds.Kind[T], option: str, value: object) -> T:
    try:
        return kind.read(value, Path.cwd())
    except ValueError as error:
        raise ConfigurationError(f"{option} must be {kind.allowed}: {error}") from None
