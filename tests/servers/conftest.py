"""One daemon for the examples of all servers, and a port for each."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from support import inference_servers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[inference_servers.Served]:
    with inference_servers.served(tmp_path_factory.mktemp("servers")) as found:
        yield found


@pytest.fixture
def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
