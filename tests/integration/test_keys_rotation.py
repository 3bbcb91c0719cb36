"""Keys are rotated and packages moved over, by commands on a daemon that serves meanwhile."""

from __future__ import annotations

import random
import stat
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import COMMAND, Daemon, answer, environment, run_command
from support.onnx_bytes import model_around, model_of
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage, varied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = 40
DATA = model_around(varied(3 << 20))
PAYLOAD = f"{COMPONENT}/{VARIANT}/model.onnx"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path)
    try:
        with running:
            yield running
    finally:
        running.kill()


def import_package(daemon: Daemon, name: str) -> None:
    with daemon.connect() as client:
        payload = PlannedBytes("model.onnx", "model", DATA)
        client.catalogue.import_(PlannedPackage((payload,), name=name))


def keys(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    return answer("keys", *arguments, "--admin", str(daemon.admin), code=code)


def hanging(daemon: Daemon) -> list[tuple[str, int, bool, str]]:
    found = keys(daemon, "report")["hanging"]
    return [(one["package"], one["generation"], one["newest"], one["kek_version"]) for one in found]


def test_a_rotated_key_moves_every_package_and_the_store(daemon: Daemon) -> None:
    import_package(daemon, "a")
    assert keys(daemon, "rotate") == {"alias": "default", "version": "2"}
    kek = daemon.folder / "kek"
    assert stat.S_IMODE(kek.stat().st_mode) == 0o600
    import_package(daemon, "b")
    assert hanging(daemon) == [("", 0, True, "1"), ("a", 1, True, "1"), ("b", 1, True, "2")]
    moved = keys(daemon, "rewrap")
    assert (moved["packages"], moved["skipped"], moved["store_key"]) == (1, 1, True)
    assert hanging(daemon) == [
        ("", 0, True, "2"),
        ("a", 1, False, "1"),
        ("a", 2, True, "2"),
        ("b", 1, True, "2"),
    ]
    assert keys(daemon, "status")["keys"][0]["version"] == "2"


def test_a_scope_that_was_opened_before_is_read_on(daemon: Daemon) -> None:
    import_package(daemon, "a")
    with daemon.connect() as client:
        scope = client.scope("a", COMPONENT, VARIANT)
        assert scope.generation == 1
        keys(daemon, "rotate")
        keys(daemon, "rewrap")
        assert scope.read("model.onnx") == DATA
        fresh = client.scope("a", COMPONENT, VARIANT)
        assert fresh.generation == 2
        assert fresh.read("model.onnx") == DATA


def test_a_forged_package_is_named_and_the_others_are_moved(daemon: Daemon) -> None:
    for name in ("a", "b"):
        import_package(daemon, name)
    manifest = daemon.store / "a" / "1" / "g" / "1" / "manifest.json"
    keys(daemon, "rotate")
    daemon.stop()
    manifest.write_bytes(
        manifest.read_bytes().replace(b'"schema_version":"1.0"', b'"schema_version":"1"')
    )
    daemon.start()
    moved = keys(daemon, "rewrap", code=6)
    assert (moved["packages"], moved["failed"]) == (1, 1)
    (failure,) = moved["failures"]
    assert (failure["kind"], failure["place"]["package"]) == ("NotAuthenticError", "a")


def test_only_whoever_may_open_the_admin_socket_rotates(daemon: Daemon) -> None:
    assert stat.S_IMODE((daemon.admin / "admin.sock").stat().st_mode) == 0o600
    done = run_command("keys", "rotate", "--admin", str(daemon.socket))
    assert done.returncode == 4


def rewrap_until_killed(daemon: Daemon, generation: int, after: float) -> None:
    command = [*COMMAND, "keys", "rewrap", "--admin", str(daemon.admin), "--json"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        deadline = time.monotonic() + 20
        # from the first package that is moved on
        while not list(daemon.store.glob(f"*/1/g/{generation}")) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(after)
        daemon.kill()
        running.wait(60)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a daemon with many packages, to be killed."""
    running = Daemon(tmp_path_factory.mktemp("killed"))
    with running:
        with running.connect() as client:
            for at in range(PACKAGES):
                payload = PlannedBytes("model.onnx", "model", model_of(5000 + at))
                client.catalogue.import_(PlannedPackage((payload,), name=f"p{at}"))
        yield running


@pytest.mark.parametrize("seed", range(3))
def test_a_daemon_killed_at_any_moment_goes_on_where_it_was(filled: Daemon, seed: int) -> None:
    daemon = filled
    chance = random.Random(seed)  # noqa: S311  (moments to kill at)
    number = max(generation for _, generation, newest, _ in hanging(daemon) if newest) + 1
    files = {path.stat().st_ino for path in daemon.store.glob(f"*/1/g/*/{PAYLOAD}")}
    version = keys(daemon, "rotate")["version"]
    for _ in range(2):
        rewrap_until_killed(daemon, number, chance.uniform(0, 0.3))
        daemon.start()
    done = keys(daemon, "rewrap")
    assert (done["packages"] + done["skipped"], done["failed"]) == (PACKAGES, 0)
    newest = [one for one in hanging(daemon) if one[2]]
    assert {found for _, _, _, found in newest} == {version}
    # every package was moved once, whole, and not one payload was written again
    assert {generation for _, generation, _, _ in newest} == {0, number}
    assert {path.stat().st_ino for path in daemon.store.glob(f"*/1/g/*/{PAYLOAD}")} == files
    assert not list((daemon.store / ".staging").iterdir())
    with daemon.connect() as client:
        for at in range(PACKAGES):
            scope = client.scope(f"p{at}", COMPONENT, VARIANT)
            assert scope.read("model.onnx") == model_of(5000 + at)
