"""QNN's copy of a blob is on huge pages while it lasts."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

import pytest
from support import eps, flows, models

from sealcar.ort import compile as compile_variant
from sealcar.ort import copies, load, runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.daemon import Daemon

MEBIBYTES = 33
PAGES = MEBIBYTES * 256
TRIES = 5


@pytest.mark.skipif(
    runtime.version() < runtime.FIRST_WITHOUT_LOCK or not copies.asked_for(),
    reason="nobody else runs while a session is made, or nobody has to ask for huge pages",
)
def test_qnn_touches_less_new_memory_for_its_copy(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require("qnn")
    model = models.big_model(MEBIBYTES, seed=flows.fresh_seed())
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "p", "large", model=model)
        compile_variant(
            client, "large", source="onnx", variant="compiled", session_options=ep.options()
        )

        def make() -> Any:  # noqa: ANN401  (untyped runtime)
            return load(client, "large", variant="compiled", session_options=ep.options())

        make()  # what only the first one in a process touches is there then
        with_advice = min(faults_of(make) for _ in range(TRIES))
        monkeypatch.setattr(copies, "LEAST", 1 << 40)
        without = min(faults_of(make) for _ in range(TRIES))
    # the kernel hasn't a huge page for each of them at all times
    assert without - with_advice > PAGES / 2


def faults_of(make: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    make()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
