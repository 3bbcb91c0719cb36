"""After everything that a daemon does, and whatever it was killed in: where are the secrets?

In the key file and in ciphertext: nowhere else on the disk, in no log, metric or answer, and in
nothing that the system tells of the process.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support import disk
from support.daemon import Daemon, run_command
from support.grpcdoor import grpc_door
from support.grpcdoor import scope as scope_message
from support.onnx_bytes import model_around
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish
from support.secrets_of import Secret, secrets_of

from sealcar.errors import SealcarError
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

# noise, so that no run of it is anywhere by chance
CANARY: Final = os.urandom(192 << 10)
TEXT: Final = base64.b64encode(CANARY[:300])
KILLS: Final = 4
SETTINGS: Final = {"log.level": "debug", "daemon.drain_timeout": "1s"}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the daemon's and our own temporary files would go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def everything(daemon: Daemon, exports: Path) -> None:
    """Import, read by both doors, write, check, rotate, export, lock and unlock."""
    with daemon.connect() as client:
        publish(client, {"canary": CANARY, "text": TEXT})
        with client.begin(PACKAGE, COMPONENT, "compiled") as transaction:
            transaction.write("model.onnx", model_around(CANARY), "model")
            transaction.commit()
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("canary") == CANARY
        client.catalogue.verify(PACKAGE)
    request = payloads_pb2.ReadRequest(scope=scope_message(PACKAGE), name="canary")
    with grpc_door(daemon) as door:
        assert b"".join(step.data for step in door.payloads.Read(request)) == CANARY
    socket, admin = {"SEALCAR_SOCKET": str(daemon.socket)}, ("--admin", str(daemon.admin))
    for command in (
        ("export", PACKAGE, str(exports)),
        ("inspect", PACKAGE, "--json"),
        ("keys", "rotate", *admin),
        ("keys", "rewrap", *admin),
        ("status", *admin, "--json"),
        ("lock", *admin),
        ("unlock", *admin),
    ):
        done = run_command(*command, **socket)
        assert done.returncode == 0, done.stderr
        (exports.parent / f"said-by-{command[0]}-{command[1].strip('-/')[:6]}").write_text(
            done.stdout + done.stderr
        )


def told_of(daemon: Daemon) -> dict[str, bytes]:
    """Return what system and daemon tell of the process."""
    folder = Path(f"/proc/{daemon.pid}")
    told = {name: (folder / name).read_bytes() for name in ("cmdline", "environ", "status", "maps")}
    port = next(line["port"] for line in daemon.log if line.get("event") == "metrics served")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        told["metrics"] = answer.read()
    return told


def assert_nowhere(root: Path, secrets: list[Secret], told: dict[str, bytes] | None = None) -> None:
    """Look at every file below, but for key files: for the keys, and for runs of plaintext."""
    files = [path for path in disk.files_below(root) if Path(path).name != "kek"]
    # generations share their files
    files = [*{_inode(path): path for path in files}.values()]
    assert any(path.endswith("store.json") for path in files)
    contents = dict(told or {})
    for path in files:
        # a daemon that runs may have put it elsewhere by now
        with contextlib.suppress(FileNotFoundError):
            contents[path] = Path(path).read_bytes()
    needles = [(secret.name, form) for secret in secrets for form in secret.forms]
    needles += [("plaintext", CANARY[:64]), ("plaintext as text", TEXT[64:128])]
    found = [
        (name, path)
        for path, content in contents.items()
        for name, needle in needles
        if needle in content
    ]
    assert found == []
    assert disk.runs(files, {"canary": CANARY}) == []


def _inode(path: str) -> int | str:
    try:
        return Path(path).stat().st_ino
    except FileNotFoundError:
        return path


@contextlib.contextmanager
def shared_places_without_it() -> Iterator[None]:
    """Afterwards nothing new where everybody's temporary files lie has any of it."""
    before = {entry for place in disk.shared_places() for entry in place.iterdir()}
    yield
    new = {entry for place in disk.shared_places() for entry in place.iterdir()} - before
    files = [str(entry) for entry in new if entry.is_file()]
    files += [path for entry in new for path in disk.files_below(entry)]
    assert disk.runs(files, {"canary": CANARY, "text": TEXT}) == []


def test_after_all_that_a_daemon_does_no_secret_is_anywhere(
    tmp_path: Path, temporary: Path
) -> None:
    with shared_places_without_it():
        with Daemon(tmp_path, settings=SETTINGS) as daemon:
            everything(daemon, tmp_path / "exported")
            secrets = secrets_of(daemon)
            told = told_of(daemon)
            assert_nowhere(tmp_path, secrets, told)
        assert_nowhere(tmp_path, secrets)
    assert len({secret.value for secret in secrets}) >= 4
    assert not [*temporary.rglob("*")]
    # so that finding nothing means something
    (tmp_path / "planted").write_bytes(secrets[0].value.hex().encode())
    with pytest.raises(AssertionError):
        assert_nowhere(tmp_path, secrets)


def busy(daemon: Daemon, name: str, ended: threading.Event) -> None:
    """Import, write and read until the daemon is gone."""
    with contextlib.suppress(SealcarError), daemon.connect() as client:
        publish(client, {"canary": CANARY}, name)
        for number in range(1000):
            if ended.is_set():
                return
            with client.begin(name, COMPONENT, f"v{number}") as transaction:
                transaction.write("model.onnx", model_around(CANARY), "model")
                transaction.commit()
            client.scope(name, COMPONENT, f"v{number}").read("model.onnx")


def test_wherever_it_is_killed_no_secret_is_anywhere(tmp_path: Path, temporary: Path) -> None:
    chance = random.Random(20)  # noqa: S311  (when to kill)
    daemon = Daemon(tmp_path, settings=SETTINGS)
    with shared_places_without_it():
        for run in range(KILLS):
            daemon.start()
            ended = threading.Event()
            workers = [
                threading.Thread(target=busy, args=(daemon, f"p{run}-{worker}", ended))
                for worker in range(2)
            ]
            for worker in workers:
                worker.start()
            time.sleep(chance.uniform(0.05, 0.5))
            daemon.kill()
            ended.set()
            for worker in workers:
                worker.join()
            assert_nowhere(tmp_path, secrets_of(daemon))
        # what a crash leaves is tidied up by the next start, and is ciphertext until then
        with daemon.start():
            secrets = secrets_of(daemon)
            assert_nowhere(tmp_path, secrets, told_of(daemon))
    assert not [*temporary.rglob("*")]


SEGFAULT: Final = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.fixture
def cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let processes write cores, into a directory of their own."""
    if "|" in Path("/proc/sys/kernel/core_pattern").read_text():
        pytest.skip("cores go to a program here")
    folder = tmp_path / "cores"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    yield folder
    resource.setrlimit(resource.RLIMIT_CORE, before)


def dumped(pid: int) -> bool:
    """Tell whether a process that dies of a signal writes a core."""
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end
    return end.si_code == os.CLD_DUMPED


@pytest.mark.root
def test_a_daemon_that_crashes_writes_no_core_where_others_would(
    tmp_path: Path, cores: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", SEGFAULT]) as other:
        if not dumped(other.pid):
            pytest.skip("this machine writes no core of any process")
    daemon = Daemon(tmp_path).start()
    with daemon.connect() as client:
        publish(client, {"canary": CANARY})
    before = sorted(cores.iterdir())
    os.kill(daemon.pid, signal.SIGSEGV)
    assert not dumped(daemon.pid)
    daemon.kill()
    assert sorted(cores.iterdir()) == before
