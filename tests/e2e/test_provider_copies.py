"""What QNN copies of a blob, and what the CPU packs of weights, lies on huge pages."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support import eps, flows, models
from support.daemon import environment

from sealcar.ort import compile as compile_variant
from sealcar.ort import copies, runtime

if TYPE_CHECKING:
    from support.daemon import Daemon

TESTS: Final = Path(__file__).parent.parent
MIB: Final = 1 << 20
MEBIBYTES: Final = 36  # of each copy
PAGES: Final = MEBIBYTES * MIB // resource.getpagesize()
PROGRAM: Final = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from support import eps
import sealcar
from sealcar.ort import copies, load

socket, package, variant, provider = sys.argv[2:]
client = sealcar.connect(socket)

def faults():
    options = eps.require(provider).options() if provider else eps.quiet_options()
    providers = None if provider else ["CPUExecutionProvider"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    load(client, package, variant=variant or None, session_options=options, providers=providers)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()  # what only the first one in a process touches is there then
# who asks can come too late on a busy machine, but not each time
asking = min(faults() for _ in range(8))
copies.LEAST = 1 << 40
print(min(faults() for _ in range(8)) - asking)
"""

pytestmark = pytest.mark.skipif(
    runtime.version() < runtime.FIRST_WITHOUT_LOCK or not copies.asked_for(),
    reason="nobody else runs while a session is made, or nobody has to ask for huge pages",
)


def test_qnn_touches_fewer_new_pages_for_its_copy(daemon: Daemon, tmp_path: Path) -> None:
    ep = eps.require("qnn")
    with daemon.connect() as client:
        model = models.big_model(MEBIBYTES, seed=flows.fresh_seed())
        flows.publish_model(client, tmp_path / "p", "blob", model=model)
        compile_variant(
            client, "blob", source="onnx", variant="compiled", session_options=ep.options()
        )
    saved = fewer_faults(daemon, "blob", "compiled", "qnn")
    # the kernel hasn't a huge page for each of them at all times
    assert saved > PAGES / 2


def test_the_cpu_touches_fewer_new_pages_for_what_it_packs(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.connect() as client:
        model = models.big_model(2 * MEBIBYTES, seed=flows.fresh_seed())
        flows.publish_model(client, tmp_path / "p", "weights", model=model)
    saved = fewer_faults(daemon, "weights")
    # both are packed at once, and nobody has to be there from the first byte
    assert saved > PAGES / 2


def fewer_faults(daemon: Daemon, package: str, variant: str = "", provider: str = "") -> int:
    """Return how many page faults of making a session are spared.

    In a process of its own: where one has very many mappings nobody looks at them.
    """
    arguments = [str(TESTS), str(daemon.socket), package, variant, provider]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])
