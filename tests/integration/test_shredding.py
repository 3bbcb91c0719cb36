"""A package is shredded on a daemon that serves it, and the command says what it can't reach."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, answer, run_command
from support.onnx_bytes import model_around
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage, varied

from sealcar.errors import AlreadyExistsError, NotFoundError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Iterator

BIG = model_around(varied(64 << 20))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("shredding")) as running:
        import_package(running, "a")
        yield running


def import_package(daemon: Daemon, name: str) -> None:
    with daemon.connect() as client:
        payload = PlannedBytes("model.onnx", "model", BIG)
        client.catalogue.import_(PlannedPackage((payload,), name=name))


def shred(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    return answer("keys", "shred", *arguments, "--admin", str(daemon.admin), code=code)


def test_without_a_yes_nothing_is_done_and_the_limits_are_said(daemon: Daemon) -> None:
    import_package(daemon, "own")
    done = run_command("keys", "shred", "own", "--admin", str(daemon.admin))
    assert done.returncode == 1
    assert "own, 1 generations" in done.stdout
    for word in ("backups", "snapshots", "blocks", "memory", "--kek"):
        assert word in done.stdout
    assert "--yes" in done.stderr
    with daemon.connect() as client:
        assert client.scope("own", COMPONENT, VARIANT).read("model.onnx") == BIG
    done = run_command("keys", "shred", "own", "--yes", "--admin", str(daemon.admin))
    assert done.returncode == 0
    # before and after
    assert done.stdout.count("backups") == 2
    assert "shredded own@1: 1 generations" in done.stdout


def test_what_is_read_meanwhile_ends_and_nothing_is_left(daemon: Daemon) -> None:
    import_package(daemon, "b")
    ended: dict[str, SealcarError] = {}
    stop = threading.Event()

    def keep_reading(name: str) -> None:
        with daemon.connect() as own:
            scope = own.scope(name, COMPONENT, VARIANT)
            while not stop.is_set():
                try:
                    scope.read("model.onnx")
                except SealcarError as error:
                    ended[name] = error
                    return

    threads = [threading.Thread(target=keep_reading, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    done = shred(daemon, "a", "--yes")
    assert done["versions"] == [{"package": "a", "version": "1", "generations": 1}]
    assert done["holders"]
    assert done["not_reached"]
    threads[0].join(30)
    stop.set()
    threads[1].join(30)
    assert {name: type(error) for name, error in ended.items()} == {"a": NotFoundError}
    files = [path.name for path in (daemon.store / "a").rglob("*") if path.is_file()]
    assert sorted(files) == ["current", "tombstone"]
    daemon.stop()
    daemon.start()
    with daemon.connect() as client:
        with pytest.raises(NotFoundError):
            client.scope("a", COMPONENT, VARIANT).read("model.onnx")
        assert [each.name for each in client.catalogue.list()] == ["b"]
    with pytest.raises(AlreadyExistsError):
        import_package(daemon, "a")


@pytest.mark.parametrize("package", ["none", "a@9"])
def test_what_isnt_there_is_said_so(daemon: Daemon, package: str) -> None:
    assert shred(daemon, package, "--yes", code=1)["error"]["kind"] == "NotFoundError"


def test_a_part_of_a_package_cant_be_shredded(daemon: Daemon) -> None:
    assert shred(daemon, "a/c", "--yes", code=2)["error"]["kind"] == "InvalidRequestError"
