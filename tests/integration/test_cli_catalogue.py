"""The catalogue's client: what it does when the other side, or the source, fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support import models
from support.daemon import Daemon, environment

from sealcar import errors, publish
from sealcar.catalogue import Catalogue, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def mute(folder: Path) -> Iterator[None]:
    """Listen on grpc.sock, take connections, never say anything."""
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "grpc.sock"))
        listener.listen()
        kept: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    kept.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in kept:
                each.close()


def test_a_mute_server_ends_in_a_timeout_of_our_own(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with (
        mute(folder),
        Catalogue.at(folder, peer_uid=os.getuid(), timeout=0.5) as catalogue,
        pytest.raises((errors.TimedOutError, errors.UnavailableError)) as caught,
    ):
        catalogue.get("ocr")
    assert caught.value.place.phase == "get"


def test_a_mute_stream_ends_in_a_timeout_of_our_own(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    begun = time.monotonic()
    with (
        mute(folder),
        Catalogue.at(folder, peer_uid=os.getuid(), timeout=0.5) as catalogue,
        pytest.raises((errors.TimedOutError, errors.UnavailableError)),
    ):
        catalogue.verify("ocr")
    assert time.monotonic() - begun < 5


def test_a_server_of_another_uid_hears_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with (
        mute(folder),
        Catalogue.at(folder, peer_uid=os.getuid() + 1, timeout=0.5) as catalogue,
        pytest.raises(errors.UnavailableError, match="not by uid"),
    ):
        catalogue.get("ocr")


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    with (
        Catalogue.at(folder, peer_uid=os.getuid()) as catalogue,
        pytest.raises(errors.InvalidRequestError, match="at most 107"),
    ):
        catalogue.get("ocr")


@dataclass(frozen=True)
class BrokenPayload:
    """Says it has more than it can give."""

    component: str = "main"
    variant: str = "onnx"
    name: str = "model.onnx"
    kind: str = "model"
    size: int = 1 << 22
    asset: str = ""

    def chunks(self) -> Iterator[bytes]:
        yield bytes(1 << 20)
        raise errors.StorageError("the source can't be read any further")


@dataclass(frozen=True)
class BrokenPlan:
    manifest_json: str
    name: str = "ocr"
    version: str = "1"
    payloads: tuple[BrokenPayload, ...] = (BrokenPayload(),)


def test_a_source_that_fails_is_the_error_and_nothing_is_left(
    daemon: Daemon, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(models.whole_model())
    with publish.plan(model) as plan:
        broken = BrokenPlan(plan.manifest_json)
    with daemon.connect() as client:
        with pytest.raises(errors.StorageError, match="any further"):
            client.catalogue.import_(broken)
        assert list(client.catalogue.list()) == []
        deadline = time.monotonic() + 5
        while list(daemon.store.rglob("model.onnx")):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_long_work_tells_how_far_it_is(daemon: Daemon, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(models.big_model(8))
    steps: list[Progress] = []
    with daemon.connect() as client:
        with publish.plan(model, name="big") as plan:
            client.catalogue.import_(plan, progress=steps.append)
            size = plan.size
        assert [each.done for each in steps] == sorted(each.done for each in steps)
        assert steps[-1].done <= size
        assert len(steps) > 3
        steps.clear()
        assert client.catalogue.verify("big", progress=steps.append).size == size
        assert steps[-1].total in (0, size)


def test_every_page_of_a_list_is_asked_for(daemon: Daemon, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(models.whole_model())
    names = [f"m{number}" for number in range(5)]
    with daemon.connect() as client:
        for name in names:
            with publish.plan(model, name=name) as plan:
                client.catalogue.import_(plan)
        assert [each.name for each in client.catalogue.list()] == names
        assert [each.name for each in client.catalogue.list("m3")] == ["m3"]


FORK = """
import os, sys, sealcar
from sealcar.errors import WrongStateError
client = sealcar.connect(sys.argv[1])
list(client.catalogue.list())
if os.fork() == 0:
    try:
        list(client.catalogue.list())
    except WrongStateError as error:
        os._exit(0 if "forked" in str(error) else 3)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_child_is_told_at_once_instead_of_hanging(daemon: Daemon) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(daemon.socket)],
        env=environment(),
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
