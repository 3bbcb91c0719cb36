"""Where a variant has its files looked for: publisher, daemon and runtime agree, case by case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon
from support.onnx_models import ep_context, inline, located, model, raw
from support.publishing import one_variant, with_asset, write, write_manifest

from sealcar import publish
from sealcar.ort import models
from sealcar.ort.sources import SealedSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FOLDER = "session.model_external_initializers_file_folder_path"
CONTEXT = "ep.context_file_path"
WEIGHTS = {"w.bin": bytes(16)}
BLOB = {"m_qnn.bin": b"blob"}
SMALL = raw(model(inline("W", [1, 2])))
BIG = raw(model(inline("W", range(100_000))))
EXTERNAL = raw(model(located("w.bin")))
COMPILED = raw(
    model(nodes=[ep_context(embed_mode=0, ep_cache_context="m_qnn.bin", main_context=1)])
)


@dataclass(frozen=True)
class Case:
    """One variant: its own files, those of an asset, and what it tells ONNX Runtime.

    In names `{a}` stands for the asset.
    """

    own: Mapping[str, bytes]
    asset: Mapping[str, bytes]
    model: str
    options: Mapping[str, str] = field(default_factory=dict)
    # what the runtime will be given, by the names in the model
    files: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, str] = field(default_factory=dict)


OTHER = {"x": b"x"}
CASES = {
    "data in an asset": Case(
        {"m.onnx": EXTERNAL}, WEIGHTS, "m.onnx", {FOLDER: "{a}"}, {"w.bin": "{a}/w.bin"}
    ),
    "data in a folder of an asset": Case(
        {"m.onnx": EXTERNAL},
        {"deep/w.bin": bytes(16)},
        ".//m.onnx",
        {FOLDER: "{a}/./deep/"},
        {"w.bin": "{a}/deep/w.bin"},
    ),
    "data in a folder of the variant": Case(
        {"m.onnx": EXTERNAL, "own/w.bin": bytes(16)},
        OTHER,
        "m.onnx",
        {FOLDER: "./own/"},
        {"w.bin": "own/w.bin"},
    ),
    "data beside a model in a folder": Case(
        {"sub/m.onnx": EXTERNAL, "sub/w.bin": bytes(16)},
        OTHER,
        "sub//m.onnx",
        files={"w.bin": "sub/w.bin"},
    ),
    "model and data in an asset": Case(
        {},
        {"a/m.onnx": EXTERNAL, "a/w.bin": bytes(16)},
        "{a}/a//m.onnx",
        files={"w.bin": "{a}/a/w.bin"},
    ),
    "model in an asset, data in the variant": Case(
        WEIGHTS, {"m.onnx": EXTERNAL}, "{a}/m.onnx", {FOLDER: "."}, {"w.bin": "w.bin"}
    ),
    "blob in an asset": Case(
        {"m.onnx": COMPILED},
        BLOB,
        "m.onnx",
        {CONTEXT: "{a}/m.onnx"},
        blobs={"m_qnn.bin": "{a}/m_qnn.bin"},
    ),
    "model and blob in an asset": Case(
        {}, {"m.onnx": COMPILED} | BLOB, "{a}/m.onnx", blobs={"m_qnn.bin": "{a}/m_qnn.bin"}
    ),
    "options that are empty": Case(
        {"m.onnx": BIG},
        OTHER,
        "m.onnx",
        {CONTEXT: "", FOLDER: ""},
        files={"m.onnx.data": "m.onnx.data"},
    ),
    "a big model with data looked for elsewhere": Case(
        {"m.onnx": BIG}, WEIGHTS, "m.onnx", {FOLDER: "{a}"}
    ),
    "a big model in an asset": Case({}, {"m.onnx": BIG}, "{a}/m.onnx"),
    "a model in an asset that nobody uses": Case(
        {"m.onnx": SMALL}, {"unused.onnx": EXTERNAL} | WEIGHTS, "m.onnx"
    ),
    "empty files": Case({"m.onnx": SMALL, "empty": b""}, {"x": b""}, "m.onnx"),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def written(root: Path, case: Case) -> Path:
    uri = with_asset(root, case.asset)
    (root / "v").mkdir()
    write(root / "v", case.own)
    told: dict[str, Any] = {
        "model_file": case.model.replace("{a}", uri),
        "session_options": {key: text.replace("{a}", uri) for key, text in case.options.items()},
    }
    return write_manifest(root, components=one_variant(executor_info={"ort": told}))


@pytest.mark.parametrize("name", CASES)
def test_a_variant_is_imported_and_the_runtime_is_led_to_the_same_files(
    daemon: Daemon, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    stored = name.replace(" ", "-").replace(",", "")
    with daemon.connect() as client:
        with publish.plan(written(tmp_path, case), name=stored) as plan:
            client.catalogue.import_(plan)
        (asset,) = client.catalogue.get(stored).assets
        found = models.read(SealedSource(client.scope(stored)))
        assert len(found.data) > 0
        expected = (
            {key: text.replace("{a}", asset.uri) for key, text in given.items()}
            for given in (case.files, case.blobs)
        )
        assert (found.files, found.blobs) == tuple(expected)
