"""A server that forks its workers: each loads through a connection of its own, and none hangs.

What needs gRPC (here: finding out which component is meant) is refused: gRPC survives no fork.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from support import flows
from support.daemon import environment

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon

# One thread a session: the runtime's own thread pools don't survive a fork.
WORKERS = """
import os, sys
import sealcar
from sealcar.ort import load, runtime
from support import eps, models

def answer(**names):
    options = eps.quiet_options()
    options.intra_op_num_threads = 1
    cpu = ["CPUExecutionProvider"]
    session = load(client, "p", **names, session_options=options, providers=cpu)
    return session.run(None, models.sample_input())[0].tobytes()

with sealcar.connect(sys.argv[1], timeout=20) as client:
    want = answer()
    for _ in range(3):
        if os.fork() == 0:
            try:
                answer()
            except sealcar.errors.WrongStateError:
                same = answer(component="main", variant="onnx") == want
                os._exit(0 if same else 1)
    ends = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(3)]
    print(*ends, answer() == want, client.state().sessions)
"""


def test_workers_that_were_forked_load_by_name_and_are_told_at_once_what_they_cannot(
    daemon: Daemon, tmp_path: Path
) -> None:
    model, weights = flows.moved_out(flows.leftover_model(seed=1))
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=model, weights=weights)
    done = subprocess.run(
        [sys.executable, "-c", WORKERS, str(daemon.socket)],
        env={**environment(), "PYTHONPATH": "tests"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["0", "0", "0", "True", "1"], done.stderr
