"""Flow 2: weights outside the model, before and after; nothing of it ever lies on a disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import disk, eps, flows, models
from support.daemon import environment

from sealcar import onnxscan
from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from support.daemon import Daemon

TESTS = Path(__file__).parents[1]
CALLS = (
    *("open", "openat", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "truncate"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
)
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
DEVICE = re.compile(r'"/(?:dev|proc|sys)/(?!shm)')


@pytest.mark.parametrize("embed", [False, True], ids=["external blobs", "embedded blobs"])
@pytest.mark.parametrize("name", eps.NAMES)
def test_flow_2_external_weights_go_in_and_out_sealed(
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

    # 1. The publisher's model has its weights in a second file. Both are sealed as they arrive.
    whole = flows.leftover_model(seed=flows.fresh_seed())
    model, weights = flows.moved_out(whole)
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "publisher", "flow2", model=model, weights=weights)
        source = client.scope("flow2", variant="onnx")
        assert {one.kind for one in source.payloads} == {"model", "initializers"}

    # 2. The application compiles it: model and weights come from the daemon into memory; blobs,
    #    the compiled model and the weights that are left to the CPU go back as they are made.
    watch = disk.Watch(allowed=daemon.folder, private=work)
    with daemon.connect() as client:
        made = compile_variant(
            client,
            "flow2",
            source="onnx",
            variant="compiled",
            session_options=ep.options(),
            embed=embed,
        )
        payloads = {one.name: made.read(one.name) for one in made.payloads}
        kinds = {one.name: one.kind for one in made.payloads}

    # 3. What was left is outside the compiled model again, as one payload.
    (compiled,) = (payloads[each] for each, kind in kinds.items() if kind == "model")
    (left,) = (each for each, kind in kinds.items() if kind == "initializers")
    (tensor,) = onnxscan.scan(compiled).external
    assert tensor.external is not None
    assert tensor.external.location == left
    assert len(payloads[left]) == 512 * 64 * 4
    assert models.context_count(compiled) == 2
    assert ("blob" in kinds.values()) is not embed

    # 4. It loads, with the weights from the daemon too, and answers like the plain model.
    feed = models.sample_input()
    with daemon.connect() as client:
        session = load(client, "flow2", variant="compiled", session_options=ep.options())
        answer = session.run(None, feed)[0]
    flows.assert_equal_answers(answer, flows.on_cpu(whole.SerializeToString(), feed))

    # 5. No file appeared, and what the daemon keeps holds no run of any plaintext.
    watch.assert_nothing_plain(
        {"source": model, "source weights": weights, **payloads}, public=made.compatibility
    )


@pytest.mark.parametrize("name", eps.NAMES)
def test_flow_2_opens_no_file_for_writing(name: str, daemon: Daemon, tmp_path: Path) -> None:
    tracer = shutil.which("strace")
    if tracer is None:
        pytest.skip("strace isn't installed")
    work, trace = tmp_path / "work", tmp_path / "trace"
    work.mkdir()
    model, weights = flows.moved_out(flows.leftover_model(seed=flows.fresh_seed()))
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "publisher", "flow2", model=model, weights=weights)

    plugin = eps.module(name)
    settings = {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
    settings |= {key: os.environ[key] for key in [eps.SHIM_TARGET] if key in os.environ}
    subprocess.run(
        [
            *(tracer, "-f", "-qq", "-s", "4096", "-o", str(trace)),
            *("-e", f"trace={','.join(CALLS)}"),
            *(sys.executable, "-m", "support.flow_program"),
            *(str(daemon.socket), "flow2", plugin.__name__, plugin.get_library_path(), name),
        ],
        env=environment(settings),
        cwd=work,
        check=True,
        timeout=240,
    )
    calls = trace.read_text()
    assert plugin.get_library_path() in calls
    assert written_in(calls) == []
    assert list(work.iterdir()) == []


def written_in(trace: str) -> list[str]:
    """Return the calls that made, changed or named a file, but for devices and the kernel's own."""
    calls = re.findall(r"^\d+ +(\w+\(.*) = \d+(?:<.*>)?$", trace, re.MULTILINE)
    writing = [call for call in calls if not call.startswith("open") or WRITING.search(call)]
    return [call for call in writing if not DEVICE.search(call)]


def test_the_trace_is_read_right() -> None:
    lines = [
        '1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3',
        '1 openat(AT_FDCWD, "/dev/null", O_RDWR) = 3',
        '1 openat(AT_FDCWD, "/srv/no", O_WRONLY|O_CREAT, 0600) = -1 EACCES (Permission denied)',
        '2 openat(AT_FDCWD, "blob.bin", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 7',
        '2 openat(AT_FDCWD, "/dev/shm/x", O_RDWR|O_CREAT, 0600) = 8',
        '2 mkdir("/var/cache", 0777) = 0',
    ]
    assert [call.split('"')[1] for call in written_in("\n".join(lines))] == [
        "blob.bin",
        "/dev/shm/x",  # noqa: S108  (never opened)
        "/var/cache",
    ]
