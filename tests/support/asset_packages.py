"""Packages with shared assets, as they come in: each asset by the URI of its plaintext."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from support.services import ME, Running

from sealcar_server.service.values import Imported, ImportPlan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WEIGHTS: Final = "session.model_external_initializers_file_folder_path"
CONTEXT: Final = "ep.context_file_path"
VOCABULARY: Final[Mapping[str, bytes]] = {"vocab.txt": b"[PAD]\n[UNK]\n", "deep/er/merges": b"a b"}


def uri_of(files: Mapping[str, bytes]) -> str:
    """Return the URI of a directory with these files."""
    lines = hashlib.sha256()
    for name in sorted(files, key=str.encode):
        lines.update(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n".encode())
    return f"sha256:{lines.hexdigest()}"


def ort(model: str = "model.onnx", **options: str) -> dict[str, Any]:
    """Return the executor_info of a variant that ORT loads with these options."""
    info: dict[str, Any] = {"model_file": model}
    return {"ort": {**info, "session_options": options} if options else info}


def weights_in(uri: str) -> dict[str, Any]:
    """Return the executor_info of a variant whose external data lies in an asset."""
    return {
        "ort": {"model_file": "model.onnx", "session_options": {WEIGHTS: uri}},
    }


@dataclass(frozen=True)
class AssetPackage:
    """What an import sends.

    Attributes:
        assets: by their URI, or by what is claimed to be.
        info: executor_info by component and variant; each variant has a small model of its own,
            but for those in `bare`.
    """

    assets: Mapping[str, Mapping[str, bytes]]
    info: Mapping[tuple[str, str], Mapping[str, Any]]
    bare: tuple[tuple[str, str], ...] = ()
    top: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def with_weights(cls, files: Mapping[str, bytes] = VOCABULARY) -> AssetPackage:
        """Return one variant that refers to one asset."""
        uri = uri_of(files)
        return cls({uri: files}, {("det", "onnx"): weights_in(uri)})

    @property
    def manifest_json(self) -> str:
        components: dict[str, Any] = {}
        for (component, variant), info in self.info.items():
            variants = components.setdefault(component, {"variants": {}})["variants"]
            variants[variant] = {"executor_info": info}
        return json.dumps({"schema_version": "1.0", "components": components, **self.top})

    def import_into(
        self, running: Running, name: str = "ocr", version: str = "1", kek: str = ""
    ) -> Imported:
        """Import it."""
        plan = ImportPlan(name, version, self.manifest_json, kek)
        count = 0
        with running.packages.import_(ME, plan) as session:
            for component, variant in self.info:
                if (component, variant) not in self.bare:
                    session.payload(component, variant, "model.onnx", "model", 5)
                    session.data(b"model")
                    count += 1
            for uri, files in self.assets.items():
                for file, data in files.items():
                    session.payload("", "", file, "other", len(data), asset=uri)
                    for at in range(0, len(data), 1 << 20):
                        session.data(data[at : at + (1 << 20)])
                    count += 1
            imported: Imported = session.finish(count)
        return imported


def asset_folders(generation: Path) -> list[Path]:
    """Return the directories of a generation's shared assets."""
    return sorted((generation / "shared_assets").iterdir())


def sealed_uri(folder: Path) -> str:
    """Return the URI of a shared asset's directory, by its name."""
    return folder.name.replace("-", ":", 1)
