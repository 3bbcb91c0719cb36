"""A daemon that was attacked must be as it was before."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.payload_packages import COMPONENT, PACKAGE, VARIANT
from support.raw_clients import descriptors, memfds, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.daemon import Daemon


@contextmanager
def unharmed(daemon: Daemon) -> Iterator[None]:
    """Afterwards it holds what it held before, serves as it did, and has logged no defect."""
    until(lambda: memfds(daemon.pid) == 0)
    before = descriptors(daemon.pid)
    yield
    until(lambda: descriptors(daemon.pid) <= before)
    with daemon.connect() as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        assert scope.read("small") == b"small"
        assert len(scope.read("big")) == scope.payload("big").size
        until(lambda: client.state().transfers == 0)
    until(lambda: memfds(daemon.pid) == 0 and descriptors(daemon.pid) <= before)
    assert not [line for line in daemon.log if line.get("level") in ("error", "critical")]
