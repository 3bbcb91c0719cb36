"""The same packages, plain and sealed: what loads during development loads from the daemon."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import eps, flows, models, plain_packages

from sealcar import publish
from sealcar.errors import InvalidPackageError, InvalidRequestError, PlaintextRefusedError
from sealcar.ort import load, runtime, set_read_callback
from sealcar.ort.configuration import PackageOptionWarning

if TYPE_CHECKING:
    from support.daemon import Daemon

    from sealcar.client import Client

CPU: Final = ("CPUExecutionProvider",)
WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"
CONTEXT_FILE: Final = "ep.context_file_path"


def ort(model: str, **session_options: str) -> dict[str, Any]:
    return {"model_file": model, "session_options": session_options}


def packages(folder: Path) -> dict[str, Path]:
    """Return packages of one model, each with its parts elsewhere."""
    whole = models.split_model()
    model, weights = models.external_model()
    outside = {models.EXTERNAL_FILE: weights}
    both = {"m.onnx": model, **outside}
    in_folder = {"model.onnx": model, f"deep/er/{models.EXTERNAL_FILE}": weights}
    written = plain_packages.written
    return {
        "inline": written(folder / "1", {"model.onnx": whole}),
        "beside": written(folder / "2", {"model.onnx": model, **outside}),
        "deep": written(
            folder / "3", {f"deep/{name}": data for name, data in both.items()}, ort("deep/m.onnx")
        ),
        "folder": written(
            folder / "4", in_folder, ort("model.onnx", **{WEIGHTS_FOLDER: "deep/er"})
        ),
        "weights asset": written(
            folder / "5",
            {"model.onnx": model},
            ort("model.onnx", **{WEIGHTS_FOLDER: "asset:a"}),
            assets={"a": outside},
        ),
        "weights in asset": written(
            folder / "6",
            {"model.onnx": model},
            ort("model.onnx", **{WEIGHTS_FOLDER: "asset:a/w"}),
            assets={"a": {f"w/{models.EXTERNAL_FILE}": weights}},
        ),
        "model asset": written(
            folder / "7", {"note": b""}, ort("asset:a/m.onnx"), assets={"a": both}
        ),
        "two assets": written(
            folder / "8",
            {"note": b""},
            ort("asset:a/in/m.onnx", **{WEIGHTS_FOLDER: "asset:b"}),
            assets={"a": {"in/m.onnx": model}, "b": outside},
        ),
    }


def take_in(client: Client, root: Path, name: str) -> None:
    with publish.plan(root, name=name) as plan:
        client.catalogue.import_(plan)


def test_a_model_and_its_weights_load_from_wherever_a_package_has_them_plain_and_sealed(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    want = flows.on_cpu(models.split_model(), models.sample_input())
    with daemon.connect() as client:
        for number, (case, root) in enumerate(packages(tmp_path / "plain").items()):
            take_in(client, root, f"p{number}")
            for source in ((root,), (client, f"p{number}")):
                session = load(
                    *source, variant="v", session_options=eps.quiet_options(), providers=CPU
                )
                got = session.run(None, models.sample_input())[0]
                assert got == pytest.approx(want), (case, source)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_compiled_model_loads_from_wherever_a_package_has_its_blob_plain_and_sealed(
    name: str, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require(name)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    model, blobs = plain_packages.compiled(ep, models.split_model())
    want = flows.on_cpu(models.split_model(), models.sample_input())
    whole = {"model.onnx": model, **blobs}
    written = plain_packages.written
    roots = {
        "beside": written(tmp_path / "1", whole, ep=ep.name),
        "context file": written(
            tmp_path / "2",
            {"model.onnx": model},
            ort("model.onnx", **{CONTEXT_FILE: "asset:a/model_ctx.onnx"}),
            assets={"a": blobs},
            ep=ep.name,
        ),
        "asset": written(
            tmp_path / "3", {"n": b""}, ort("asset:a/model.onnx"), assets={"a": whole}, ep=ep.name
        ),
    }
    with daemon.connect() as client:
        for number, (case, root) in enumerate(roots.items()):
            take_in(client, root, f"p{number}")
            for source in ((root,), (client, f"p{number}")):
                session = load(*source, session_options=ep.options())
                # a provider that asked again would get it still
                gc.collect()
                got = session.run(None, models.sample_input())[0]
                assert got == pytest.approx(want, abs=flows.TOLERANCE), (case, source)
        # a session made by hand gets the blob of an asset, too
        options = ep.options()
        set_read_callback(options, client.scope("p2", "main", "v"))
        runtime.onnxruntime().InferenceSession(model, options, enable_fallback=0)
    assert list((tmp_path / "work").iterdir()) == []


def test_options_are_judged_alike_whether_the_package_is_plain_or_sealed(
    daemon: Daemon, tmp_path: Path
) -> None:
    refused = {"session.optimized_model_filepath": "plain.onnx"}
    files = {"model.onnx": models.split_model()}
    told = ort("model.onnx", **refused, **{"session.intra_op_num_threads": "1"})
    root = plain_packages.written(tmp_path / "p", files, told)
    with daemon.connect() as client:
        take_in(client, root, "p")
        for source in ((root,), (client, "p")):
            options = eps.quiet_options()
            with pytest.warns(PackageOptionWarning, match=r"session\.optimized_model_filepath"):
                load(*source, variant="v", session_options=options, providers=CPU)
            assert options.intra_op_num_threads == 1
            options.add_session_config_entry(*next(iter(refused.items())))
            with pytest.raises(PlaintextRefusedError):
                load(*source, variant="v", session_options=options, providers=CPU)
    assert not Path("plain.onnx").exists()


def test_a_sealed_package_is_not_loaded_from_its_directory(daemon: Daemon, tmp_path: Path) -> None:
    root = plain_packages.written(tmp_path / "p", {"model.onnx": models.split_model()})
    with daemon.connect() as client:
        take_in(client, root, "p")
    (sealed,) = daemon.store.glob("p/1/g/*")
    with pytest.raises(InvalidRequestError, match=r"ciphertext.*through a client"):
        load(sealed, variant="v", session_options=eps.quiet_options(), providers=CPU)
    # without what the whole package says, a variant says it
    manifest = json.loads((sealed / "manifest.json").read_text())
    del manifest["additional_metadata"]
    (sealed / "manifest.json").chmod(0o600)
    (sealed / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidRequestError, match=r"ciphertext.*through a client"):
        load(sealed, variant="v", session_options=eps.quiet_options(), providers=CPU)


def test_what_belongs_to_the_other_kind_of_source_is_refused(
    daemon: Daemon, tmp_path: Path
) -> None:
    root = plain_packages.written(tmp_path / "p", {"model.onnx": models.split_model()})
    untyped: Any = load
    with pytest.raises(InvalidRequestError, match="load from a client"):
        untyped(root, "p")
    with pytest.raises(InvalidRequestError, match="load from a client"):
        untyped(str(root), version="1")
    with daemon.connect() as client, pytest.raises(InvalidRequestError, match="name the package"):
        untyped(client)


def test_a_plain_package_without_a_model_is_refused_with_the_place(tmp_path: Path) -> None:
    root = plain_packages.written(tmp_path / "p", {"model.onnx": b""}, {})
    with pytest.raises(InvalidPackageError, match=r"open: .*/main/v: .*\"model_file\""):
        load(root, variant="v", session_options=eps.quiet_options(), providers=CPU)
