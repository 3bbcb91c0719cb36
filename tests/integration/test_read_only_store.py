"""A store that may only be read: served from a mount that can't be written, and not written to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, run_command
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage

from sealcar.errors import WrongStateError
from sealcar.exports.places import Destination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar.client import Client

# in a mount namespace of its own, so that nothing is left behind however it ends
_MOUNTED = (
    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
    'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"',
    "sh",
)


class Mountable(Daemon):
    """A daemon to whom its store can be a mount that nobody can write to."""

    mounted = False

    def command(self) -> list[str]:
        command = super().command()
        return [*_MOUNTED, str(self.store), *command] if self.mounted else command


def planned(version: str) -> PlannedPackage:
    return PlannedPackage((PlannedBytes("model.onnx", "model", TINY),), "ocr", version)


@pytest.fixture(scope="module", params=["mount", "directory"])
def daemon(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Daemon]:
    """Give one that serves two versions, one in two generations, and what a crash left."""
    daemon = Mountable(tmp_path_factory.mktemp("d"))
    with daemon, daemon.connect() as client:
        for version in ("1", "2"):
            client.catalogue.import_(planned(version))
        with client.begin("ocr", COMPONENT, "new") as transaction:
            transaction.write("model.onnx", TINY, "model")
            transaction.commit()
        daemon.stop()
        left = daemon.store / ".staging/left"
        left.mkdir()
        (left / "file").write_bytes(b"by a crash")
        daemon.settings["store.read_only"] = "true"
        daemon.mounted = request.param == "mount"
        if daemon.mounted and os.geteuid() != 0:
            pytest.skip("only root can mount")
        before = snapshot(daemon.store)
        daemon.start()
        yield daemon
        daemon.stop()
        assert snapshot(daemon.store) == before, "nothing in the store was touched"


def snapshot(store: Path) -> dict[str, tuple[int, int]]:
    """Return every name below, with inode and time of change."""
    return {
        str(path.relative_to(store)): (path.lstat().st_ino, path.lstat().st_ctime_ns)
        for path in [store, *store.rglob("*")]
    }


def test_it_is_listed_looked_into_read_and_verified(client: Client) -> None:
    listed = [(each.version, each.generation) for each in client.catalogue.list()]
    assert listed == [("1", 1), ("2", 2)]
    assert client.catalogue.get("ocr").verified
    assert client.scope("ocr", COMPONENT, VARIANT).read("model.onnx") == TINY
    assert client.catalogue.verify("ocr").payloads == 2


def test_it_is_exported(client: Client, tmp_path: Path) -> None:
    client.catalogue.export("ocr", Destination(tmp_path / "out"), version="1")
    assert (tmp_path / "out/manifest.json").exists()


CHANGES: dict[str, Callable[[Client], object]] = {
    "import": lambda client: client.catalogue.import_(planned("3")),
    "write": lambda client: client.begin("ocr", COMPONENT, "late"),
    "use": lambda client: client.catalogue.use("ocr", "1"),
    "remove": lambda client: client.catalogue.remove("ocr", "1"),
    "prune": lambda client: client.catalogue.prune("ocr", keep=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_would_change_it_fails_with_the_name_of_the_setting(
    client: Client, change: Callable[[Client], object]
) -> None:
    with pytest.raises(WrongStateError, match=r"store\.read_only"):
        change(client)


def test_a_prune_of_everything_finds_nothing_to_do_or_says_why(client: Client) -> None:
    with pytest.raises(WrongStateError, match=r"store\.read_only"):
        client.catalogue.prune()


@pytest.mark.parametrize(
    "arguments", [("keys", "shred", "ocr@1", "--yes"), ("keys", "rewrap", "--from", "1")]
)
def test_operators_are_told_the_same(daemon: Daemon, arguments: tuple[str, ...]) -> None:
    if "rewrap" in arguments:
        rotated = run_command("keys", "rotate", "--admin", str(daemon.admin))
        assert rotated.returncode == 0, rotated.stderr
    done = run_command(*arguments, "--admin", str(daemon.admin))
    assert done.returncode == 1, done.stdout
    assert "store.read_only" in done.stderr
