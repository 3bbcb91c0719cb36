"""The metrics listener, which asks nobody who he is, under those who mean no good."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from sealcar_server import metrics_http
from sealcar_server.health import Health
from sealcar_server.settings_kinds import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing it takes back what was sent


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(metrics_http._Handler, "timeout", 0.5)
    health = Health(lambda: True, lambda: False)
    with metrics_http.serve(CollectorRegistry(), health, Address("127.0.0.1", 0)) as port:
        yield port


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def lives(port: int) -> bool:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(asking):
        asking.request("GET", "/livez")
        return asking.getresponse().status == 200


def test_connections_that_say_nothing_keep_no_probe_out_and_few_threads(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_http._Handler, "timeout", 60)
    most = metrics_http.AT_ONCE
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(port)) for _ in range(most * 2)]
        assert lives(port)
        # the oldest made room
        assert [one.recv(1) for one in silent[:most]] == [b""] * most
        assert threading.active_count() - before <= most + 8


def test_who_hangs_up_or_says_too_little_leaves_nothing_in_the_log(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    for said in (b"", b"GET /metrics HTTP/1.1\r\n", b"GET"):
        with connected(port) as one:
            one.sendall(said)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with connected(port) as silent:
        assert silent.recv(1) == b""
    assert lives(port)
    assert capfd.readouterr() == ("", "")
