"""Payloads that are on their way before anybody asks for them.

A blob's memory is known only when the provider asks for it. Until then the daemon has as much of it
ready as a ring holds, while the runtime parses the model and the provider begins. Weights have
memory of their own, so all of them can come while the model is read.
"""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final

from sealcar import tracing
from sealcar.closing import Closing
from sealcar.errors import ResourceError, SealcarError, WrongStateError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import advise_huge, copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from sealcar.ort.sources import Readable, Reader
    from sealcar.transfer.arriving import ArrivingPayload

# each of them takes a descriptor until it has come
_MOST_EARLY: Final = 16
_NICE: Final = 10  # as the daemon's workers


class BlobAhead(Closing):
    """The first blob of a session, to be taken once; for any number of threads.

    No more than one: whoever waits for a connection or for a ring holds none himself.

    Args:
        source: what it is read from.
        name: of its payload; empty: there is none.
    """

    def __init__(self, source: Readable, name: str = "") -> None:
        self._source, self._name = source, name
        self._lock = threading.Lock()
        self._ready: Reader | None = None
        if name:
            with suppress(SealcarError):  # whoever needs it will see
                self._ready = source.reader_ahead(name)

    def fill(self, name: str, allocate: Callable[[int], int]) -> None:
        """Fill memory with a blob: what is ready of it, and the rest.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        address = None
        with self._take() as ready:
            if ready is not None and name == self._name:
                address = allocate(ready.size)
                try:
                    ready.read_into(address, ready.size)
                except ResourceError:
                    pass  # the daemon didn't wait so long
                else:
                    return
        with self._source.reader(name) as reader:
            reader.read_into(allocate(reader.size) if address is None else address, reader.size)

    def close(self) -> None:
        """Let it go if nobody asked for it; any can be read as before."""
        with self._take():
            pass

    def _take(self) -> AbstractContextManager[Reader | None]:
        with self._lock:
            ready, self._ready = self._ready, None
        return nullcontext() if ready is None else ready


class ViewsAhead:
    """Payloads on their way into memory of their own, one after the other on one thread.

    Args:
        view: returns a payload in memory.
        names: which.
        early: returns one that is handed out before it has come, if it can.
    """

    def __init__(
        self,
        view: Callable[[str], memoryview],
        names: Iterable[str],
        early: Callable[[str], ArrivingPayload | None] = lambda _: None,
    ) -> None:
        self._view = view
        self._coming: dict[str, _Coming] = {}
        for number, name in enumerate(names):
            self._coming[name] = _Coming(name, early(name) if number < _MOST_EARLY else None)
        self._early: list[_Coming] = []
        self._given_up = False
        if self._coming:
            todo = tuple(self._coming.values())
            run = tracing.bound(self._run)
            try:
                threading.Thread(target=run, args=(todo,), name="weights", daemon=True).start()
            except RuntimeError:  # there can be no more threads: who takes one fetches it
                self._coming.clear()
                for coming in todo:
                    with coming.arriving or nullcontext():
                        pass

    def take(self, name: str) -> memoryview:
        """Return a payload in memory, as soon as it is there, or before.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        coming = self._coming.pop(name, None)
        if coming is None:
            return self._view(name)
        coming.taken = True
        if coming.arriving is None:
            return coming.result()
        self._early.append(coming)
        return coming.arriving.view

    def arrive(self) -> None:
        """Return when everything that was taken is there, for anybody to read.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        while self._early:
            self._early.pop().result()

    def give_up(self) -> None:
        """Fetch no further one."""
        self._given_up = True
        self._coming.clear()

    def _run(self, todo: tuple[_Coming, ...]) -> None:
        if any(coming.arriving for coming in todo):
            _make_way()
        for coming in todo:
            with coming.arriving or nullcontext():
                if not self._given_up or coming.taken:
                    self._fetch(coming)
                else:
                    # somebody may just be taking it
                    coming.fail(WrongStateError("nothing is fetched any more"))

    def _fetch(self, coming: _Coming) -> None:
        try:
            if coming.arriving is None:
                coming.arrive(self._view(coming.name))
            else:
                coming.arriving.bring()
                coming.arrive(coming.arriving.view)
        except BaseException as error:  # noqa: BLE001  (whoever takes it sees it)
            coming.fail(error)


class Held(Closing):
    """Payloads in memory, each fetched once and copied as often as it is asked for.

    Args:
        view: returns a payload in memory.
        names: which.

    Attributes:
        names: of those that are held.
    """

    def __init__(self, view: Callable[[str], memoryview], names: Iterable[str]) -> None:
        self.names = set(names)
        self._ahead = ViewsAhead(view, self.names)
        self._views: dict[str, memoryview] = {}
        self._lock = threading.Lock()

    def fill(self, name: str, allocate: Callable[[int], int]) -> bool:
        """Fill memory with a payload; tell whether it is one of these, and there was room for it.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        view = self._get(name)
        if view is None:
            return False
        with Exported(view) as data:
            target = allocate(data.size)
            advise_huge(target, data.size)
            copy(target, data.address, data.size)
        return True

    def _get(self, name: str) -> memoryview | None:
        with self._lock:
            if name in self.names and name not in self._views:
                try:
                    self._views[name] = self._ahead.take(name)
                except ResourceError:
                    self.names.discard(name)
            return self._views.get(name)

    def close(self) -> None:
        """Hold none any more."""
        self._ahead.give_up()
        with self._lock:
            self.names.clear()
            self._views.clear()


def _make_way() -> None:
    """Have this thread run below the one that makes the session, which waits for what it lacks."""
    thread = threading.get_native_id()
    with suppress(OSError):  # a sandbox may forbid it
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, max(niceness, _NICE))


def nothing_held() -> Held:
    """Return what holds nothing."""
    return Held(lambda _: memoryview(b""), ())


class _Coming:
    def __init__(self, name: str, arriving: ArrivingPayload | None) -> None:
        self.name, self.arriving = name, arriving
        self.taken = False
        self._ended = threading.Event()
        self._outcome: memoryview | BaseException = memoryview(b"")

    def arrive(self, view: memoryview) -> None:
        self._outcome = view
        self._ended.set()

    def fail(self, error: BaseException) -> None:
        self._outcome = error
        self._ended.set()

    def result(self) -> memoryview:
        """Wait for it, and return it or raise why it didn't come."""
        self._ended.wait()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome
