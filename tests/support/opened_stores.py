"""A daemon's store as whoever has its key file opens it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.payload_packages import COMPONENT, PACKAGE, VARIANT

from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon

    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.secret import SecretBuffer
    from sealcar_server.sealing.values import SealRecord


def generation_of(daemon: Daemon, name: str = PACKAGE, number: int = 1) -> Path:
    return daemon.store / name / "1" / "g" / str(number)


def record_of(generation: Path) -> SealRecord:
    manifest = json.loads((generation / "manifest.json").read_bytes())
    return record.parse(record.open_envelope(manifest)[0])


def package_key(kek: Path, generation: Path) -> SecretBuffer:
    sealed = record_of(generation)
    provider = FileProvider(kek)
    try:
        wrapped = WrappedKey(sealed.kek_version, sealed.wrapped)
        return provider.unwrap(wrapped, package_context(sealed.package_id))
    finally:
        provider.close()


def payload_key(daemon: Daemon, name: str, package: str = PACKAGE) -> PayloadKey:
    """Return the key of a payload of the one variant that a planned package has."""
    generation = generation_of(daemon, package)
    key = package_key(daemon.folder / "kek", generation)
    with PackageKeys(key, record_of(generation).package_id) as keys:
        return keys.variant(COMPONENT, VARIANT, name)
