"""Sessions of packages whose models and weights lie in shared assets, sealed, on every runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import disk, eps, flows, models
from support.publishing import one_variant, with_asset, write, write_manifest

from sealcar import publish
from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.daemon import Daemon

    from sealcar.client import Client

FOLDER = "session.model_external_initializers_file_folder_path"
CPU = ("CPUExecutionProvider",)
WHOLE = flows.leftover_model(seed=flows.fresh_seed())
MODEL, WEIGHTS = flows.moved_out(WHOLE)


def weights_apart(root: Path) -> None:
    """Write a package whose model is the variant's, and its weights an asset's."""
    uri = with_asset(root, {flows.WEIGHTS: WEIGHTS})
    write(root / "v", {"model.onnx": MODEL})
    ort = {"model_file": "model.onnx", "session_options": {FOLDER: uri}}
    write_manifest(root, components=one_variant(executor_info={"ort": ort}))


def all_in_an_asset(root: Path) -> None:
    """Write a package whose variant has nothing of its own."""
    uri = with_asset(root, {"m/model.onnx": MODEL, f"m/{flows.WEIGHTS}": WEIGHTS})
    (root / "v").mkdir()
    ort = {"model_file": f"{uri}/m/model.onnx"}
    write_manifest(root, components=one_variant(executor_info={"ort": ort}))


def take_in(client: Client, root: Path, name: str) -> None:
    with publish.plan(root, name=name) as plan:
        client.catalogue.import_(plan)


@pytest.mark.parametrize("package", [weights_apart, all_in_an_asset])
@pytest.mark.parametrize("ep_name", eps.NAMES)
def test_a_model_with_parts_in_assets_is_loaded_and_compiled(
    package: Callable[[Path], None], ep_name: str, daemon: Daemon, tmp_path: Path
) -> None:
    ep = eps.require(ep_name)
    root = tmp_path / "plain"
    root.mkdir()
    package(root)
    feed = models.sample_input()
    want = flows.on_cpu(WHOLE.SerializeToString(), feed)
    with daemon.connect() as client:
        take_in(client, root, "one")
        take_in(client, root, "two")
        session = load(client, "one", variant="v", providers=CPU)
        flows.assert_equal_answers(session.run(None, feed)[0], want)
        compile_variant(client, "two", source="v", variant="compiled", session_options=ep.options())
        session = load(client, "two", variant="compiled", session_options=ep.options())
        flows.assert_equal_answers(session.run(None, feed)[0], want)
    first, second = (
        {path.name: path.stat().st_ino for path in place.rglob("*") if path.is_file()}
        for place in (
            daemon.store / "one/1/g/1/shared_assets",
            daemon.store / "two/1/g/2/shared_assets",
        )
    )
    assert first == second, "equal assets are one file, also in later generations"
    assert first


def test_no_run_of_an_asset_is_anywhere_in_the_store(daemon: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    weights_apart(root)
    with daemon.connect() as client:
        take_in(client, root, "p")
    assert disk.runs(disk.files_below(root), {"weights": WEIGHTS}), "the search finds what is there"
    assert not disk.runs(disk.files_below(daemon.store), {"weights": WEIGHTS, "model": MODEL})
