"""What is fuzzed: each target takes bytes, and lets nothing but our own errors out of itself."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fuzz.mutating import changed_json, changed_lines
from fuzz.packets import packets
from fuzz.sealed import SealedPackage
from support.hostile_models import LOCATIONS, PLACES, many_tensors, nested_graphs
from support.onnx_bytes import TINY
from support.onnx_models import ep_context, inline, located, model, raw

from sealcar import modelpackage, onnxscan
from sealcar.errors import NotAuthenticError, SealcarError
from sealcar.onnxscan.jobs import Folder, Job
from sealcar.onnxscan.judging import judge
from sealcar_server.access import policy_file
from sealcar_server.sealing import agreement, record
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import manifest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Prepared = tuple[Callable[[bytes], None], list[bytes]]


@dataclass(frozen=True)
class Target:
    """One thing that is fuzzed.

    Attributes:
        prepared: gives what takes an input, and the first inputs.
        longest: bytes of an input.
        changed: changes an input in the way of its kind; None if it isn't of that kind.
    """

    prepared: Callable[[], AbstractContextManager[Prepared]]
    longest: int = 4096
    changed: Callable[[bytes, random.Random], bytes | None] | None = None


@contextlib.contextmanager
def package_manifest() -> Iterator[Prepared]:
    """Open a model package's manifest, as publishers do."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "manifest.json"
        strict = modelpackage.Rules(unique_keys=True)

        def one(data: bytes) -> None:
            file.write_bytes(data)
            for rules in (None, strict):
                with contextlib.suppress(modelpackage.PackageError):
                    package = modelpackage.open(folder, rules)
                    for component in package.components.values():
                        for variant in component.variants.values():
                            list(variant.executor_info.values())

        yield one, MANIFESTS


@contextlib.contextmanager
def import_manifest() -> Iterator[Prepared]:
    """Check the manifest of an import, as the daemon does."""

    def one(data: bytes) -> None:
        with contextlib.suppress(SealcarError):
            manifest.scopes(manifest.prepare(data.decode(errors="replace")))

    yield one, MANIFESTS


@contextlib.contextmanager
def seal_record() -> Iterator[Prepared]:
    """Open a sealed manifest, and a seal record alone."""
    with SealedPackage() as sealed:

        def one(data: bytes) -> None:
            with contextlib.suppress(SealcarError):
                record.parse(data)
            with contextlib.suppress(SealcarError):
                found = strict_json(data, error=NotAuthenticError)
                text, _ = record.open_envelope(found)
                agreement.compare(record.parse(text), found)

        text, _ = record.open_envelope(strict_json(sealed.manifest))
        yield one, [sealed.manifest, text]


@contextlib.contextmanager
def stream() -> Iterator[Prepared]:
    """Read a sealed payload: header, commitment, segments."""
    with SealedPackage() as sealed, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "payload"

        def one(data: bytes) -> None:
            file.write_bytes(data)
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            with contextlib.suppress(SealcarError), sealed.reader(fd, data) as reader:
                for index in range(reader.layout.count):
                    reader.read_segment(index, sealed.scratch)

        yield one, [sealed.payload, sealed.payload[:40], sealed.payload[:-1]]


@contextlib.contextmanager
def policy() -> Iterator[Prepared]:
    """Read a policy file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.toml"
        file.touch(0o600)

        def one(data: bytes) -> None:
            file.write_bytes(data)
            with contextlib.suppress(SealcarError):
                policy_file.read(file)

        yield one, POLICIES


@contextlib.contextmanager
def onnx() -> Iterator[Prepared]:
    """Look at a model as the daemon has it done, and rewrite it as publishers do."""
    files = {"w.bin": ("initializers", 64), "engine.bin": ("blob", 64), "a/w.bin": ("other", 16)}
    folders = (Folder(files), Folder(files, "a"))
    job = Job(0, 0, "m.onnx", folders, folders)

    def one(data: bytes) -> None:
        with contextlib.suppress(SealcarError):
            judge(data, job)
        with contextlib.suppress(SealcarError):
            onnxscan.scan(data)
            onnxscan.externalise(data, location="m.onnx.data", threshold=8)

    yield one, MODELS


_ORT: Final = {
    "model_file": "m.onnx",
    "session_options": {"ep.context_file_path": "sha256:" + "5" * 64 + "/x"},
}
_VARIANT: Final = {
    "variant_directory": "c/v",
    "ep": "QNNExecutionProvider",
    "device": "npu",
    "compatibility_string": "soc 60",
    "executor_info": {"ort": _ORT, "own": {"a": [1, 2.5, None, True, "\\u00e9"]}},
    "additional_metadata": {"x": {"y": -1}},
}
_MANIFEST: Final = {
    "schema_version": "1.0",
    "package_name": "ocr",
    "package_version": "2",
    "description": "x",
    "layout": "portable",
    "components": {"c": {"component_name": "c", "variants": {"v": _VARIANT, "w": {}}}},
    "additional_metadata": {"z": []},
}
MANIFESTS: Final = [
    json.dumps(_MANIFEST).encode(),
    json.dumps({**_MANIFEST, "schema_version": 1, "components": {"c": "c"}}).encode(),
    json.dumps({**_MANIFEST, "shared_assets": {"sha256:" + "5" * 64: "shared"}}).encode(),
    b'{"schema_version": "1.7", "components": {"c": {"variants": {}}, "c": 1e999}}',
    b"[" * 100,
]
POLICIES: Final = [
    b'[[grant]]\nuid = 1000\npackages = ["ocr", "a-*"]\ncomponents = ["det"]\nrights = ["read"]\n',
    b'[[grant]]\ngid = 7\nlistener = "a"\npackages = ["*"]\nrights = ["list", "export-plain"]\n',
    b"grant = 1\n",
    b'[[grant]]\nuid = 65534\npackages = [[]]\nrights = [{}, "read"]\n',
]
MODELS: Final = [
    TINY,
    raw(model(inline("W", [1, 2, 3, 4]))),
    *(raw(model(located(location))) for location in LOCATIONS[:12]),
    *(raw(place(located("w.bin"))) for place in PLACES),
    raw(model(nodes=[ep_context(embed_mode=0, ep_cache_context="engine.bin", main_context=1)])),
    nested_graphs(40),
    many_tensors(located("w.bin"), 5),
]
TARGETS: Final = {
    "package-manifest": Target(package_manifest, changed=changed_json),
    "import-manifest": Target(import_manifest, changed=changed_json),
    "seal-record": Target(seal_record, 8192, changed_json),
    "stream": Target(stream, 8192),
    "packets": Target(packets),
    "policy": Target(policy, changed=changed_lines),
    "onnx": Target(onnx),
}
