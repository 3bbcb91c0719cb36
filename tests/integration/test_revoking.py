"""A version is revoked on a daemon that serves what is under it."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, answer, run_command
from support.onnx_bytes import TINY, model_around
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage, varied

from sealcar.errors import KeyRefusedError, SealcarError

if TYPE_CHECKING:
    from pathlib import Path

BIG = model_around(varied(64 << 20))


def keys(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    return answer("keys", *arguments, "--admin", str(daemon.admin), code=code)


def import_package(daemon: Daemon, name: str, data: bytes = BIG) -> None:
    with daemon.connect() as client:
        payload = PlannedBytes("model.onnx", "model", data)
        client.catalogue.import_(PlannedPackage((payload,), name=name))


def test_revoking_ends_what_is_under_way_and_outlives_the_daemon(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        import_package(daemon, "a")
        keys(daemon, "rotate")
        import_package(daemon, "b")
        keys(daemon, "rewrap")
        ended: dict[str, SealcarError] = {}
        stop = threading.Event()

        def keep_reading(name: str, generation: int) -> None:
            with daemon.connect() as own:
                scope = own.scope(name, COMPONENT, VARIANT, version="1", generation=generation)
                while not stop.is_set():
                    try:
                        scope.read("model.onnx")
                    except SealcarError as error:
                        ended[name] = error
                        return

        threads = [
            threading.Thread(target=keep_reading, args=("a", 1)),
            threading.Thread(target=keep_reading, args=("b", 1)),
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        done = keys(daemon, "revoke", "1")
        assert (done["packages"], done["older"]) == (0, 1)
        assert [holder["pid"] for holder in done["holders"]] == [os.getpid()]
        threads[0].join(30)
        stop.set()
        threads[1].join(30)
        # b was never under the version: it is read on
        assert {name: type(error) for name, error in ended.items()} == {"a": KeyRefusedError}
        assert keys(daemon, "status")["keys"][0]["revoked"] == ["1"]
        with daemon.connect() as client:
            assert client.scope("a", COMPONENT, VARIANT).read("model.onnx") == BIG
        daemon.stop()
        daemon.start()
        with daemon.connect() as client, pytest.raises(KeyRefusedError):
            client.scope("a", COMPONENT, VARIANT, version="1", generation=1).read("model.onnx")


def test_what_would_be_lost_is_named_before_and_needs_a_yes(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        import_package(daemon, "a", TINY)
        assert "rotate" in keys(daemon, "revoke", "1", "--yes", code=1)["error"]["message"]
        keys(daemon, "rotate")
        kept = keys(daemon, "revoke", "1", code=1)["error"]
        assert (kept["kind"], "a@1" in kept["message"]) == ("WrongStateError", True)
        keys(daemon, "rewrap")
        assert keys(daemon, "revoke", "1")["older"] == 1
        said = run_command("keys", "status", "--admin", str(daemon.admin)).stdout
        assert said.splitlines()[-1].split()[-1] == "1"
