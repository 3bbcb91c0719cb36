"""Sealed exports as an import sends them, message by message, so that tests can lie in each."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from support.services import ME, Running

from sealcar_server.sealing import record
from sealcar_server.service.values import Imported, ImportPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Key: TypeAlias = tuple[str, str, str, str]  # component, variant, asset, name
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class SealedFiles:
    """What a generation is made of.

    Attributes:
        manifest: its text.
        files: ciphertext and kind of each payload.
        sizes: that are announced, where they aren't the true ones.
    """

    manifest: str
    files: Mapping[Key, tuple[bytes, str]]
    sizes: Mapping[Key, int]

    def edited(self, key: Key, data: bytes) -> SealedFiles:
        """Return it with other bytes of one file, of which the announced size tells nothing."""
        old, kind = self.files[key]
        sizes = {**self.sizes, key: len(old)}
        return replace(self, files={**self.files, key: (data, kind)}, sizes=sizes)

    def without(self, key: Key) -> SealedFiles:
        """Return it without one file."""
        return replace(self, files={each: self.files[each] for each in self.files if each != key})

    def send(
        self, running: Running, name: str = "ocr", version: str = "", *, piece: int = _PIECE
    ) -> Imported:
        """Import it."""
        plan = ImportPlan(name, version, self.manifest, sealed=True)
        with running.packages.import_(ME, plan) as session:
            for (component, variant, asset, payload), (data, kind) in self.files.items():
                size = self.sizes.get((component, variant, asset, payload), len(data))
                session.payload(component, variant, payload, kind, size, asset=asset)
                for at in range(0, len(data), piece):
                    session.data(data[at : at + piece])
            return session.finish(len(self.files))


def sealed_files(generation: Path) -> SealedFiles:
    """Return what a generation in a store is made of, as an export has it."""
    text = (generation / "manifest.json").read_text()
    sealed = record.parse(record.open_envelope(json.loads(text))[0])
    files: dict[Key, tuple[bytes, str]] = {}
    for variant in sealed.variants:
        for payload in variant.payloads:
            place = generation / variant.component / variant.variant / payload.name
            key = (variant.component, variant.variant, "", payload.name)
            files[key] = (place.read_bytes(), payload.kind)
    for asset in sealed.assets:
        for payload in asset.payloads:
            place = generation / "shared_assets" / asset.uri.replace(":", "-") / payload.name
            files["", "", asset.uri, payload.name] = (place.read_bytes(), payload.kind)
    return SealedFiles(text, files, {})


def with_key_of(origin: Path, target: Path) -> Path:
    """Give a root the key-encryption keys of another one, and return it."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(origin / "kek", target / "kek")
    return target


def changed(files: SealedFiles, change: Iterable[tuple[str, Any]]) -> SealedFiles:
    """Return it with other top-level fields of its manifest."""
    manifest = json.loads(files.manifest)
    manifest.update(change)
    return replace(files, manifest=json.dumps(manifest))
