"""Payloads that are on their way before anybody asks for them.

A blob's memory is known only when the provider asks for it. Until then the daemon has as much of it
ready as a ring holds, while the runtime parses the model and the provider begins. Weights have
memory of their own, so all of them can come while the model is read.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from sealcar import tracing
from sealcar.closing import Closing
from sealcar.errors import ResourceError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from sealcar.ort.sources import Readable, Reader


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
    """

    def __init__(self, view: Callable[[str], memoryview], names: Iterable[str]) -> None:
        self._coming: dict[str, Future[memoryview]] = {name: Future() for name in names}
        self._view = view
        self._given_up = False
        if self._coming:
            todo = tuple(self._coming.items())
            run = tracing.bound(self._run)
            threading.Thread(target=run, args=(todo,), name="weights", daemon=True).start()

    def take(self, name: str) -> memoryview:
        """Return a payload in memory, as soon as it is there.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        coming = self._coming.pop(name, None)
        return self._view(name) if coming is None else coming.result()

    def give_up(self) -> None:
        """Fetch no further one."""
        self._given_up = True
        self._coming.clear()

    def _run(self, todo: tuple[tuple[str, Future[memoryview]], ...]) -> None:
        for name, coming in todo:
            if self._given_up:
                return
            try:
                coming.set_result(self._view(name))
            except BaseException as error:  # noqa: BLE001  (whoever takes it sees it)
                coming.set_exception(error)
