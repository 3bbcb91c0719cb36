"""Every root key of a daemon, in the forms in which it might turn up somewhere."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.opened_stores import package_key, record_of

from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.encoding import enc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.daemon import Daemon


@dataclass(frozen=True)
class Secret:
    """What it is, and its bytes."""

    name: str
    value: bytes

    @property
    def forms(self) -> tuple[bytes, ...]:
        digits = self.value.hex().encode()
        # the end of base64 depends on what follows
        return (
            self.value,
            digits,
            digits.upper(),
            base64.b64encode(self.value)[:40],
            base64.urlsafe_b64encode(self.value)[:40],
            repr(self.value)[2:-1].encode(),
        )


def secrets_of(daemon: Daemon) -> list[Secret]:
    """Return all of them: of the key file, of the store, of every package and asset."""
    found = {one.value: one for one in _of(daemon.folder / "kek", daemon.store)}
    return [*found.values()]


def _of(kek: Path, store: Path) -> Iterator[Secret]:
    for line in kek.read_text().splitlines()[1:]:
        version, digits = line.split()
        yield Secret(f"key-encryption key {version}", bytes.fromhex(digits))
    yield Secret("store key", _store_key(kek, store))
    for manifest in sorted(store.glob("*/*/g/*/manifest.json")):
        generation = manifest.parent
        place = str(generation.relative_to(store))
        if "/." in f"/{place}":  # what a daemon that was killed didn't finish
            continue
        record = record_of(generation)
        with package_key(kek, generation) as key:
            yield Secret(f"package key of {place}", bytes(key.view))
            keys = PackageKeys(key.copy(), record.package_id)
        with keys:
            for asset in record.assets:
                with keys.unwrap_asset(asset.wrapped, asset.asset_id) as asset_key:
                    yield Secret(f"asset key of {place}", bytes(asset_key.view))


def _store_key(kek: Path, store: Path) -> bytes:
    found = json.loads((store / "store.json").read_bytes())
    store_id, wrapped = (_decoded(found[name]) for name in ("store_id", "wrapped"))
    provider = FileProvider(kek)
    try:
        context = enc("sealcar v1 store key wrap", "1", store_id)
        with provider.unwrap(WrappedKey(found["kek_version"], wrapped), context) as key:
            return bytes(key.view)
    finally:
        provider.close()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
