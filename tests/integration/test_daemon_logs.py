from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.payload_packages import publish

from sealcar.errors import NotFoundError

if TYPE_CHECKING:
    from pathlib import Path


def test_every_line_is_one_json_object_with_time_level_and_source(daemon: Daemon) -> None:
    with daemon.connect() as client:
        publish(client, {"blob": b"plain words"})
        with pytest.raises(NotFoundError):
            client.catalogue.get("absent")
    assert daemon.stop() == 0
    lines = daemon.log_path.read_text().splitlines()
    assert len(lines) > 3
    for line in lines:
        assert {"event", "level", "logger", "timestamp"} <= set(json.loads(line)), line


def test_a_refused_call_is_logged_with_its_method_and_code(daemon: Daemon) -> None:
    with daemon.connect() as client, pytest.raises(NotFoundError):
        client.catalogue.get("absent")
    (line,) = [line for line in daemon.log if line["event"] == "call refused"]
    assert (line["method"], line["code"]) == ("PackageStore.Get", "NOT_FOUND")
    assert "absent" in line["error"]


def test_no_line_holds_what_a_payload_holds(daemon: Daemon) -> None:
    secret = b"no-log-line-may-ever-hold-this"
    with daemon.connect() as client:
        publish(client, {"blob": secret * 1000})
        assert client.scope("m", "c", "v").read("blob") == secret * 1000
    assert daemon.stop() == 0
    assert secret not in daemon.log_path.read_bytes()


def test_the_least_severity_can_be_set(tmp_path: Path) -> None:
    settings = {"log.level": "error", "metrics.address": "off"}
    daemon = Daemon(tmp_path, settings=settings)
    with subprocess.Popen(daemon.command(), env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr
        with daemon.connect(timeout=30) as client:
            assert client.state().serving
        process.terminate()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_text_for_people_can_be_had(tmp_path: Path) -> None:
    settings = {"log.format": "console", "metrics.address": "off"}
    daemon = Daemon(tmp_path, settings=settings)
    with subprocess.Popen(daemon.command(), env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr
        with daemon.connect(timeout=30) as client:
            client.state()
        process.terminate()
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert "serving" in said
    assert not said.startswith("{")
