"""Plain packages on the disk, for tests that load them."""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Final

import onnx
from onnx import TensorProto

from sealcar import modelpackage
from sealcar.ort import adapters
from sealcar.ort.callbacks import Compilation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.eps import Ep

COMPONENT: Final = "main"
VARIANT: Final = "v"


def written(
    root: Path,
    files: Mapping[str, bytes],
    ort: Mapping[str, object] | None = None,
    *,
    assets: Mapping[str, Mapping[str, bytes]] | None = None,
    **variant: str,
) -> Path:
    """Write a package of one variant and return its directory.

    Args:
        root: the package's directory, which doesn't exist yet.
        files: of the variant, by name.
        ort: `executor_info["ort"]`; default: that model.onnx is the model. A text in it that begins
            with "asset:NAME" leads into that asset.
        assets: files of shared assets, by a name that only `ort` knows.
        variant: further fields of the variant.
    """
    directory = root / VARIANT
    for name, data in files.items():
        write(directory / name, data)
    directory.mkdir(parents=True, exist_ok=True)
    info = json.dumps({"model_file": "model.onnx"} if ort is None else ort)
    for name, content in (assets or {}).items():
        info = info.replace(f"asset:{name}", _asset(root, content))
    body = {"variant_directory": VARIANT, "executor_info": {"ort": json.loads(info)}, **variant}
    manifest = {
        "schema_version": "1.0",
        "components": {COMPONENT: {"variants": {VARIANT: body}}},
    }
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


def write(path: Path, data: bytes) -> None:
    """Write a file, and the directories that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _asset(root: Path, files: Mapping[str, bytes]) -> str:
    fresh = root / "shared_assets" / "fresh"
    for name, data in files.items():
        write(fresh / name, data)
    uri = modelpackage.hash_directory(fresh)
    fresh.rename(fresh.with_name(uri.replace(":", "-")))
    return uri


def compiled(ep: Ep, model: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return what a provider makes of a model: the compiled one, and its blobs."""
    out = bytearray()
    blobs: dict[str, bytes] = {}

    def take(address: int, size: int, /) -> None:
        out.extend(ctypes.string_at(address, size))

    def keep(name: str, address: int, size: int, /) -> None:
        blobs[name] = ctypes.string_at(address, size)

    adapters.registrar().compile(ep.options(), Compilation(model, take, write=keep))
    return bytes(out), blobs


def naming_blob(compiled_model: bytes, name: bytes) -> bytes:
    """Return a compiled model whose nodes name another blob."""
    model = onnx.load_from_string(compiled_model)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "ep_cache_context":
                attribute.s = name
    return bytes(model.SerializeToString())


def naming_file(model: bytes, location: str) -> bytes:
    """Return a model whose external tensors lie in another file."""
    changed = onnx.load_from_string(model)
    for tensor in changed.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
    return bytes(changed.SerializeToString())
