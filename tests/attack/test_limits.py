"""What one uid may take, and that others don't notice when it takes more."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support.caller import call_as
from support.daemon import Daemon, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish

from sealcar.errors import ExhaustedError
from sealcar_server.access.rates import Rates

if TYPE_CHECKING:
    from pathlib import Path

OTHER = 4501
READ = {"read": [PACKAGE, COMPONENT, VARIANT, "blob"]}
LIST = {"method": "PackageStore.List", "request": {}}
CONNECTED = """
import sys, sealcar
try:
    client = sealcar.connect(sys.argv[1], peer_uid=0, timeout=5)
    print(client.state().serving, flush=True)
except sealcar.errors.SealcarError as error:
    print(type(error).__name__, error, flush=True)
sys.stdin.read()
"""


def test_a_second_s_worth_may_come_at_once_and_then_as_many_as_time_allows() -> None:
    rates = Rates(50)
    begun = time.monotonic()
    for _ in range(50):
        rates.take("a")
    taken = 50
    while time.monotonic() - begun < 0.5:
        try:
            rates.take("a")
        except ExhaustedError as error:
            time.sleep(error.retry_after or 9)
        else:
            taken += 1
    assert 50 <= taken <= 50 + 50 * (time.monotonic() - begun) + 1
    rates.take("b")


def test_whoever_asks_from_many_uids_takes_no_memory() -> None:
    rates = Rates(1)
    for uid in range(20_000):
        rates.take(f"uid {uid}")
    assert len(rates._allowances._left) <= 4096


@pytest.mark.root
def test_whoever_asks_too_often_is_refused_until_he_has_rested_and_others_are_not(
    tmp_path: Path,
) -> None:
    daemon = Daemon(tmp_path, reachable=True, settings={"limits.requests": "40"})
    daemon.grant(OTHER)
    with daemon:
        with daemon.connect(peer_uid=os.geteuid()) as client:
            publish(client, {"blob": b"plain words"})
            scope = client.scope(PACKAGE, COMPONENT, VARIANT)
            refused = 0
            for _ in range(400):
                try:
                    scope.read("blob")
                except ExhaustedError as error:
                    refused += error.retry_after is not None
            assert refused > 100
            (listed,) = call_as(0, daemon.socket, LIST)
            by_stream, by_packet = call_as(OTHER, daemon.socket, LIST, READ)
            assert "answer" in by_stream
            assert bytes.fromhex(by_packet["answer"]) == b"plain words"
            time.sleep(1)
            assert scope.read("blob") == b"plain words"
        assert listed.get("error") in (None, "ExhaustedError")
        assert daemon.metric("sealcar_denials_total", rule="limit") >= refused


@pytest.mark.root
def test_too_many_processes_of_one_uid_keep_no_other_uid_out(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, reachable=True, settings={"limits.sessions": "3"})
    daemon.grant(OTHER)
    with daemon:
        running = [
            subprocess.Popen(
                [sys.executable, "-c", CONNECTED, str(daemon.socket)],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(5)
        ]
        try:
            said = [one.stdout.readline().strip() for one in running if one.stdout]
            assert said.count("True") == 3
            refused = [line for line in said if line != "True"]
            assert all("limits.sessions" in line for line in refused), refused
            (other,) = call_as(OTHER, daemon.socket, LIST)
            assert "answer" in other
            assert daemon.metric("sealcar_denials_total", rule="limit") >= 2
        finally:
            for one in running:
                one.communicate()
