"""Flow 1: a sealed model is compiled in memory; its blobs are sealed as the provider makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import disk, eps, flows, models

from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon


@pytest.mark.parametrize("embed", [False, True], ids=["external blobs", "embedded blobs"])
@pytest.mark.parametrize("name", eps.NAMES)
def test_flow_1_a_split_model_is_compiled_sealed_loaded_and_answers_alike(
    name: str,
    embed: bool,  # noqa: FBT001  (pytest's parameter)
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ep = eps.require(name)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    # 1. A publisher has a plain model. He imports it: it is sealed while it arrives.
    plain = models.split_model(256, seed=flows.fresh_seed())
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "publisher", "flow1", model=plain)

    # 2. From here on nothing plain may be written. An application connects,
    #    and has the model compiled for its own machine, in its own memory.
    watch = disk.Watch(allowed=daemon.folder, private=work)
    with daemon.connect() as client:
        made = compile_variant(
            client,
            "flow1",
            source="onnx",
            variant="compiled",
            session_options=ep.options(),
            embed=embed,
        )
        blobs = {one.name: made.read(one.name) for one in made.payloads if one.kind == "blob"}
        (model,) = (made.read(one.name) for one in made.payloads if one.kind == "model")

    # 3. The variant is complete: a model in three parts, and exactly the blobs that they name.
    assert made.ep == ep.name
    assert made.compatibility
    assert made.device == ep.device.device.type.name.lower()
    assert all(payload.sealed for payload in made.payloads)
    assert models.context_count(model) == 3
    assert models.blob_names(model) == set(blobs)
    assert bool(blobs) is not embed

    # 4. An application loads it, and gets the plain model's answers.
    feed = models.sample_input(256)
    with daemon.connect() as client:
        session = load(client, "flow1", variant="compiled", session_options=ep.options())
        answer = session.run(None, feed)[0]
    flows.assert_equal_answers(answer, flows.on_cpu(plain, feed))

    # 5. No file appeared, and what the daemon keeps holds no run of any plaintext.
    watch.assert_nothing_plain(
        {"source": plain, "model": model, **blobs}, public=made.compatibility
    )
