"""Neither the environment nor whoever squats beside the daemon leads a client to another one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish

import sealcar
from sealcar.errors import ConfigurationError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SQUATTER = 4401
# another user's sockets, that carry everything to the real daemon and back, and say what they heard
SQUATTING = """
import os, select, socket, sys
theirs, mine, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(mine)
listeners = {}
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
for name, kind in (("data.sock", socket.SOCK_SEQPACKET), ("grpc.sock", socket.SOCK_STREAM)):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(name)
    os.chmod(name, 0o666)
    made.listen()
    listeners[made] = (name, kind)
print("there", flush=True)
pairs = {}
while True:
    for one in select.select([*listeners, *pairs], [], [])[0]:
        if one in listeners:
            name, kind = listeners[one]
            client, _ = one.accept()
            real = socket.socket(socket.AF_UNIX, kind)
            real.connect(f"{theirs}/{name}")
            pairs[client], pairs[real] = real, client
            continue
        data = one.recv(1 << 20)
        if data:
            print("heard", flush=True)
            pairs[one].send(data)
        else:
            other = pairs.pop(one)
            pairs.pop(other)
            one.close(); other.close()
"""


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, reachable=True) as daemon:
        with daemon.connect() as client:
            publish(client, {"small": b"small"})
        yield daemon


@contextmanager
def squatting(daemon: Daemon, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another user listen in a directory of his, in front of the real daemon."""
    folder.mkdir()
    os.chown(folder, SQUATTER, SQUATTER)
    with subprocess.Popen(
        [sys.executable, "-c", SQUATTING, str(daemon.socket), str(folder), str(SQUATTER)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        yield process
        process.kill()


@pytest.mark.root
def test_a_squatter_between_client_and_daemon_hears_nothing(
    published: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "squat"
    with squatting(published, folder) as process:
        monkeypatch.setenv("SEALCAR_SOCKET", str(folder))
        with pytest.raises(UnavailableError, match=f"must have uid {os.geteuid()}"):
            sealcar.connect(peer_uid=os.geteuid(), timeout=10)
        monkeypatch.setenv("SEALCAR_PEER_UID", str(os.geteuid()))
        with pytest.raises(UnavailableError, match=f"must have uid {os.geteuid()}"):
            sealcar.connect(timeout=10)
        process.kill()
        assert process.stdout
        assert process.stdout.read() == ""


@pytest.mark.root
def test_what_a_program_says_itself_counts_more_than_the_environment(
    published: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with squatting(published, tmp_path / "squat") as process:
        monkeypatch.setenv("SEALCAR_SOCKET", str(tmp_path / "squat"))
        monkeypatch.setenv("SEALCAR_PEER_UID", str(SQUATTER))
        with sealcar.connect(published.socket, peer_uid=os.geteuid(), timeout=20) as client:
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"
            assert len(list(client.catalogue.list())) == 1
        process.kill()
        assert process.stdout
        assert process.stdout.read() == ""


def test_in_a_directory_that_all_can_write_nobody_is_believed_without_a_uid(
    published: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    for name in ("data.sock", "grpc.sock"):
        (folder / name).symlink_to(published.socket / name)
    monkeypatch.delenv("SEALCAR_PEER_UID", raising=False)
    with pytest.raises(ConfigurationError, match="give peer_uid"):
        sealcar.connect(folder, timeout=10)
    with sealcar.connect(folder, peer_uid=os.geteuid(), timeout=20) as client:
        assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"


@pytest.mark.root
@pytest.mark.parametrize("where", ["all can write", "his"])
def test_who_makes_the_socket_directory_first_is_not_taken_for_the_daemon(
    published: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.delenv("SEALCAR_PEER_UID", raising=False)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    if where == "his":
        shared /= "x"
        shared.mkdir()
        os.chown(shared, SQUATTER, SQUATTER)
    # nobody but him can write to it, so it looks as a daemon's directory does
    with squatting(published, shared / "default") as process:
        with pytest.raises(ConfigurationError, match="peer_uid or \\$SEALCAR_PEER_UID"):
            sealcar.connect(shared / "default", timeout=10)
        with pytest.raises(UnavailableError, match=f"must have uid {os.geteuid()}"):
            sealcar.connect(shared / "default", peer_uid=os.geteuid(), timeout=10)
        process.kill()
        assert process.stdout
        assert process.stdout.read() == ""


def test_no_proxy_of_the_environment_is_asked(
    published: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def listen() -> None:
            try:
                asked.append(proxy.accept()[1])
            except OSError:
                return

        listening = threading.Thread(target=listen)
        listening.start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
            monkeypatch.setenv(name, address)
            monkeypatch.setenv(name.upper(), address)
        for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        with published.connect(timeout=20) as client:
            assert len(list(client.catalogue.list())) == 1
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("small") == b"small"
        proxy.shutdown(socket.SHUT_RDWR)
        listening.join(10)
    assert asked == []
