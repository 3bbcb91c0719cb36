"""What every suite shares: who may run what, and the daemon as a fixture."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar import Client


def pytest_configure() -> None:
    # a shell starts its background jobs with SIGINT ignored, which every child would inherit
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="changes uids: needs root")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Give a daemon that serves, with isolation none; it must end well."""
    with Daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """Give a client of that daemon, or of the module's own."""
    with daemon.connect() as client:
        yield client
