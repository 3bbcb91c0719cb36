"""What QNN copies of a blob, and what the CPU packs of weights, lies on huge pages."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Final

import pytest
from support import eps, flows, models

from sealcar.ort import compile as compile_variant
from sealcar.ort import copies, load, runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.daemon import Daemon

MIB: Final = 1 << 20
MEBIBYTES: Final = 36  # of each copy
PAGES: Final = MEBIBYTES * MIB // resource.getpagesize()
TRIES: Final = 8
CPU: Final = ["CPUExecutionProvider"]

pytestmark = pytest.mark.skipif(
    runtime.version() < runtime.FIRST_WITHOUT_LOCK or not copies.asked_for(),
    reason="nobody else runs while a session is made, or nobody has to ask for huge pages",
)


def test_qnn_touches_fewer_new_pages_for_its_copy(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require("qnn")
    with daemon.connect() as client:
        model = models.big_model(MEBIBYTES, seed=flows.fresh_seed())
        flows.publish_model(client, tmp_path / "p", "blob", model=model)
        compile_variant(
            client, "blob", source="onnx", variant="compiled", session_options=ep.options()
        )
        saved = fewer_faults(
            lambda: load(client, "blob", variant="compiled", session_options=ep.options()),
            monkeypatch,
        )
    # the kernel hasn't a huge page for each of them at all times
    assert saved > PAGES / 2


def test_the_cpu_touches_fewer_new_pages_for_what_it_packs(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon.connect() as client:
        model = models.big_model(2 * MEBIBYTES, seed=flows.fresh_seed())
        flows.publish_model(client, tmp_path / "p", "weights", model=model)
        saved = fewer_faults(
            lambda: load(client, "weights", session_options=eps.quiet_options(), providers=CPU),
            monkeypatch,
        )
    # both are packed at once, and nobody has to be there from the first byte
    assert saved > PAGES / 2


def fewer_faults(make: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many page faults of making a session are spared."""
    make()  # what only the first one in a process touches is there then
    # who asks can come too late on a busy machine, but not each time
    asking = min(_faults_of(make) for _ in range(TRIES))
    monkeypatch.setattr(copies, "LEAST", 1 << 40)
    return min(_faults_of(make) for _ in range(TRIES)) - asking


def _faults_of(make: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    make()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
