"""A connection that can't be watched gives back everything that was counted for it."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
from typing import TYPE_CHECKING, Any

import pytest

from sealcar_server.endpoints.pump import Link

if TYPE_CHECKING:
    from collections.abc import Iterator


class Exhausted(selectors.DefaultSelector):
    """Watches so many sockets, as a kernel does whose limit of watches is reached."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def exhaust(self) -> None:
        self._most = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401  (as its base)
        if len(self.get_map()) >= self._most:
            raise OSError(errno.ENOSPC, "no space")
        return super().register(fileobj, events, data)


@pytest.fixture
def pairs() -> Iterator[tuple[socket.socket, ...]]:
    sockets = (*socket.socketpair(), *socket.socketpair())
    yield sockets
    for one in sockets:
        one.close()


def test_a_link_of_which_one_half_can_not_be_watched_leaves_none_watched(
    pairs: tuple[socket.socket, ...],
) -> None:
    client, _, inner, _ = pairs
    with Exhausted(1) as selector:
        with pytest.raises(OSError, match="no space"):
            Link("name", 1, client, inner, selector)
        assert not selector.get_map()
    assert client.fileno() >= 0
    assert inner.fileno() >= 0


def test_a_link_that_can_be_watched_no_more_is_at_its_end_and_harms_nobody(
    pairs: tuple[socket.socket, ...],
) -> None:
    client, caller, inner, callee = pairs
    with Exhausted(2) as selector:
        link = Link("name", 1, client, inner, selector)
        # until the inner one takes no more: then nothing is read from the client
        while client in selector.get_map():
            caller.send(bytes(1 << 16))
            link.move(client.fileno(), selectors.EVENT_READ)
        selector.exhaust()
        callee.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while callee.recv(1 << 20):
                pass
        assert not link.move(inner.fileno(), selectors.EVENT_WRITE)
        link.close()
        assert not selector.get_map()
