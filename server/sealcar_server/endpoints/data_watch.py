"""Whose packet is next: of all that is there to be read, one of each caller after the other.

Without it a caller with many connections would have as many turns as he has connections while
another one waits for his only one. Who asks without pause has fewer turns than that.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar_server.access.shares import UNLIMITED, Shares

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

_READABLE: Final = select.EPOLLIN | select.EPOLLONESHOT
_UNARMED: Final = 0
_NONE: Final = -1
_NOBODY: Final = object()


@dataclass(eq=False)
class Watched:
    """A descriptor, whose it is, and what is called when it can be read, or is armed for.

    Attributes:
        again: it is watched again after its turn; else somebody arms it.
        due: it waits for its turn.
    """

    fd: int
    owner: Hashable
    call: Callable[[], None]
    again: bool = True
    due: bool = False
    gone: bool = False


class Watch:
    """For one thread, but for `arm`; another one may add and remove what is armed.

    A descriptor that is due isn't looked at before it had its turn.

    Args:
        shares: says when an owner may have a turn.
    """

    def __init__(self, shares: Shares = UNLIMITED) -> None:
        self._epoll = select.epoll()
        self._shares = shares
        self._watched: dict[int, Watched] = {}
        self._due: OrderedDict[Hashable, deque[Watched]] = OrderedDict()

    def add(
        self, fd: int, owner: Hashable, call: Callable[[], None], *, events: int = _READABLE
    ) -> None:
        """Watch a descriptor from now on; without events, when it is armed."""
        self._watched[fd] = Watched(fd, owner, call, again=events != _UNARMED)
        self._epoll.register(fd, events | select.EPOLLONESHOT)

    def arm(self, fd: int, events: int) -> None:
        """Watch for one of these events, once; fine if it isn't watched. From any thread."""
        if fd in self._watched:
            with contextlib.suppress(OSError, ValueError):
                self._epoll.modify(fd, events | select.EPOLLONESHOT)

    def remove(self, fd: int) -> None:
        """Watch it no longer; fine if it isn't watched."""
        watched = self._watched.pop(fd, None)
        if watched is not None:
            # its number may be another one's before its turn comes
            watched.gone = True
            with contextlib.suppress(OSError, ValueError):
                self._epoll.unregister(fd)

    def give_turn(self, owner: Hashable, call: Callable[[], None]) -> None:
        """Have something called in its owner's turn that no descriptor tells of."""
        self._queue(Watched(_NONE, owner, call, again=False))

    def turns(self, timeout: float, most: int) -> Iterator[Callable[[], None]]:
        """Wait until something can be read, and yield what is to be called, at most so many."""
        soonest = min(map(self._shares.rest, self._due), default=timeout)
        for fd, _ in self._epoll.poll(min(soonest, timeout)):
            watched = self._watched.get(fd)
            # one that was armed by others meanwhile has no second turn by that
            if watched is not None and not watched.due:
                self._queue(watched)
        for _ in range(most):
            owner = next((one for one in self._due if not self._shares.begin(one)), _NOBODY)
            if owner is _NOBODY:
                return
            begun = time.thread_time()
            queue = self._due.pop(owner)
            watched = queue.popleft()
            watched.due = False
            if queue:
                self._due[owner] = queue
            if not watched.gone:
                yield watched.call
            if not watched.gone and watched.again:
                self._epoll.modify(watched.fd, _READABLE)
            self._shares.end(owner, time.thread_time() - begun)

    def given(self) -> Iterator[Callable[[], None]]:
        """Take everything that turns were given to, and leave what waits for a descriptor."""
        for watched in [one for queue in self._due.values() for one in queue if one.fd == _NONE]:
            if not watched.gone:
                watched.gone = True
                yield watched.call

    def close(self) -> None:
        """Watch nothing any more."""
        self._epoll.close()

    def _queue(self, watched: Watched) -> None:
        watched.due = True
        self._due.setdefault(watched.owner, deque()).append(watched)
