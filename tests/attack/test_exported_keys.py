"""Keys leave by one door, which is shut unless somebody opened it on purpose."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Final

import grpc
import pytest
from support.daemon import Daemon, run_command
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish

from sealcar.v1 import common_pb2 as common
from sealcar.v1 import keys_pb2 as pb
from sealcar.v1.keys_pb2_grpc import KeysStub

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

ALLOWED: Final = {"admin.tink_export": "true"}
ADDRESS: Final = f"{PACKAGE}/{COMPONENT}/{VARIANT}"


def export(daemon: Daemon, file: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_command(
        *("keys", "export-tink", ADDRESS, str(file), *options, "--admin", str(daemon.admin))
    )


def lines(daemon: Daemon) -> list[dict[str, object]]:
    files = sorted((daemon.folder / "state" / "audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def willing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("willing"), settings=ALLOWED) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": b"weights"})
        yield daemon


def test_without_the_setting_no_key_leaves(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.connect() as client:
        publish(client, {"weights": b"weights"})
    file = tmp_path / "keyset"
    done = export(daemon, file, "--clear")
    assert done.returncode == 1
    assert "admin.tink_export" in done.stderr
    assert not file.exists()
    assert not [line for line in lines(daemon) if line["event"] == "key-export"]


@pytest.mark.parametrize("mode", ["off", "best-effort"])
def test_what_can_not_be_accounted_for_does_not_leave(tmp_path: Path, mode: str) -> None:
    with Daemon(tmp_path, settings={**ALLOWED, "audit.mode": mode}) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": b"weights"})
        file = tmp_path / "keyset"
        done = export(daemon, file, "--clear")
    assert done.returncode == 1
    assert "audit.mode" in done.stderr
    assert not file.exists()


def test_the_account_of_it_lasts_before_the_keys_leave(willing: Daemon, tmp_path: Path) -> None:
    assert export(willing, tmp_path / "keyset", "--clear").returncode == 0
    begun, note, done = [line for line in lines(willing) if line["event"] != "key"][-3:]
    assert (begun["method"], begun["outcome"]) == ("Keys.ExportTink", "begun")
    assert note["event"] == "key-export"
    assert (note["package"], note["version"], note["generation"]) == (PACKAGE, "1", 1)
    assert (note["component"], note["variant"], note["under"]) == (COMPONENT, VARIANT, None)
    assert (done["method"], done["outcome"]) == ("Keys.ExportTink", "done")


def test_no_other_socket_has_that_door(willing: Daemon) -> None:
    request = pb.ExportTinkRequest(
        package=common.PackageRef(name=PACKAGE), component=COMPONENT, variant=VARIANT, clear=True
    )
    with (
        grpc.insecure_channel(f"unix:{willing.socket / 'grpc.sock'}") as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        next(iter(KeysStub(channel).ExportTink(request)))
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_keys_are_written_to_a_new_file_for_nobody_else(willing: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "keyset"
    done = export(willing, file, "--clear")
    assert done.returncode == 0
    assert "KEYS in the clear" in done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (key,) = json.loads(file.read_text())["key"]
    assert key["keyData"]["value"] not in done.stdout + done.stderr
    before = file.read_bytes()
    assert export(willing, file, "--clear").returncode == 1
    assert file.read_bytes() == before


def test_a_terminal_or_a_link_gets_no_keys(willing: Daemon, tmp_path: Path) -> None:
    master, slave = os.openpty()
    try:
        for place in ("/dev/stdout", "/dev/tty", os.ttyname(slave)):
            done = export(willing, place, "--clear")
            assert done.returncode == 1, place
            assert "exists already" in done.stderr or "can't be written" in done.stderr
    finally:
        os.close(master)
        os.close(slave)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert export(willing, link, "--clear").returncode == 1
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ((), 2, "say what protects"),
        (("--clear", "--kek", "default"), 2, "say what protects"),
        (("--kek", "default"), 1, "Tink can't use file keys"),
        (("--kek", "nobodys"), 7, "no key-encryption key named"),
    ],
)
def test_keys_leave_in_the_clear_only_if_that_is_said(
    willing: Daemon, tmp_path: Path, options: tuple[str, ...], code: int, text: str
) -> None:
    file = tmp_path / "keyset"
    done = export(willing, file, *options)
    assert (done.returncode, file.exists()) == (code, False), done.stderr
    assert text in done.stderr
    assert not [*tmp_path.iterdir()]


def test_a_locked_daemon_lets_no_key_out(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings=ALLOWED) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": b"weights"})
        assert run_command("lock", "--admin", str(daemon.admin)).returncode == 0
        done = export(daemon, tmp_path / "keyset", "--clear")
    assert done.returncode == 7
    assert not (tmp_path / "keyset").exists()
