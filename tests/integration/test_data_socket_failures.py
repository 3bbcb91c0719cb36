"""What a full disk, another user, and a busy daemon mean for transfers."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import until

from sealcar import errors

if TYPE_CHECKING:
    from pathlib import Path

BIG = varied(20 << 20)
STRANGER = 54321

# run as another user: says what it reads, or why not
READ = f"""
import os, sys, sealcar
sealcar.connect  # loads what another user may not be able to read
os.setgid({STRANGER})
os.setuid({STRANGER})
client = sealcar.connect(sys.argv[1], peer_uid=int(sys.argv[2]), timeout=10)
for package in ("m", "other", "none"):
    try:
        print(package, len(client.scope(package, "c", "v").read("big")))
    except sealcar.errors.SealcarError as error:
        print(package, type(error).__name__)
try:
    client.begin("m", "c", "w")
except sealcar.errors.SealcarError as error:
    print("begin", type(error).__name__)
"""


def test_a_disk_that_is_full_in_mid_write_fails_that_write_and_no_other(daemon: Daemon) -> None:
    with daemon.connect() as client:
        publish(client, {"x": b"x"})
        unlimited = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
        with client.begin(PACKAGE, COMPONENT, "w") as transaction:
            transaction.write("model.onnx", TINY, "model")
            # a limit on files has the kernel refuse the write as a full disk does
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (12 << 20, unlimited[1]))
            with pytest.raises(errors.ExhaustedError) as caught:
                transaction.write("blob", BIG, "blob")
            place = caught.value.place
            assert (place.package, place.variant, place.payload) == (PACKAGE, "w", "blob")
            assert not [path for path in daemon.store.rglob("blob") if path.is_file()]
            transaction.write("small", b"fits", "blob")
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, unlimited)
            transaction.write("blob", BIG, "blob")
            scope = transaction.commit()
        assert scope.read("blob") == BIG
        assert scope.read("small") == b"fits"


def test_a_payload_that_was_cut_is_refused_before_any_byte_is_visible(daemon: Daemon) -> None:
    with daemon.connect() as client:
        publish(client, {"big": BIG})
        sealed = next(path for path in daemon.store.rglob("big") if path.is_file())
        for size in (0, 39, sealed.stat().st_size - 1, sealed.stat().st_size - (1 << 20)):
            os.truncate(sealed, size)
            with pytest.raises(errors.DamagedError) as caught:
                client.scope(PACKAGE, COMPONENT, VARIANT).reader("big")
            assert caught.value.place.payload == "big"
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("model.onnx") == TINY


@pytest.mark.root
def test_another_user_gets_what_was_granted_and_learns_of_nothing_else(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, reachable=True)
    daemon.grant(STRANGER, packages=[PACKAGE], rights=["read"])
    with daemon:
        with daemon.connect(peer_uid=os.getuid()) as client:
            publish(client, {"big": BIG})
            publish(client, {"big": BIG}, "other")
        done = subprocess.run(
            [sys.executable, "-c", READ, str(daemon.socket), str(os.getuid())],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout.splitlines() == [
        f"m {len(BIG)}",
        "other NotFoundError",
        "none NotFoundError",
        "begin DeniedError",
    ]


def test_memory_is_bounded_by_the_budget_and_not_by_the_number_of_readers(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings={"transfer.memory_limit": str(32 << 20)}) as daemon:
        with daemon.connect() as client:
            publish(client, {"big": BIG})
        program = (
            "import sys, sealcar\n"
            "client = sealcar.connect(sys.argv[1])\n"
            "scope = client.scope('m', 'c', 'v')\n"
            "for _ in range(3):\n"
            "    assert len(scope.read('big')) == 20 << 20\n"
        )
        crowd = [
            subprocess.Popen([sys.executable, "-c", program, str(daemon.socket)], env=environment())
            for _ in range(8)
        ]
        with daemon.connect() as watcher:
            most = 0
            while any(process.poll() is None for process in crowd):
                most = max(most, watcher.state().memory)
            until(lambda: watcher.state().memory == 0)
        assert [process.wait() for process in crowd] == [0] * 8
        assert 0 < most <= 32 << 20
