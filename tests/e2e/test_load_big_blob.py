"""A blob of over 300 MB goes out through the write callback and in through the read callback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import disk, eps, flows, models

from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from support.daemon import Daemon

MEBIBYTES = 310
LEAST = 300_000_000


def test_a_blob_of_300_megabytes_is_sealed_loaded_and_answers_alike(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require("openvino")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    plain = models.big_model(MEBIBYTES, seed=flows.fresh_seed())
    feed = models.sample_input(int((MEBIBYTES * 2**20 / 8) ** 0.5) // 64 * 64)
    want = flows.on_cpu(plain, feed)
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "big", model=plain)
        (tmp_path / "s" / "model.onnx").unlink()
        watch = disk.Watch(allowed=daemon.folder, private=work)
        made = compile_variant(
            client, "big", source="onnx", variant="compiled", session_options=ep.options()
        )
        assert max(one.size for one in made.payloads if one.kind == "blob") > LEAST
        session = load(client, "big", variant="compiled", session_options=ep.options())
        flows.assert_equal_answers(session.run(None, feed)[0], want)
    watch.assert_nothing_plain({"weights": plain})
