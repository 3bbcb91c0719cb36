"""Payloads that are on their way before anybody asks for them.

A blob's memory is known only when the provider asks for it. Until then the daemon has as much of it
ready as a ring holds, while the runtime parses the model and the provider begins. Weights have
memory of their own, so all of them can come while the model is read.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import ResourceError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sealcar.ort.sources import Readable, Reader

# each holds one of the client's connections, and its ring
_BLOBS: Final = 2


class BlobsAhead(Closing):
    """The first blobs of a session, each to be taken once; for any number of threads.

    Args:
        source: what they are read from.
        names: of their payloads.
    """

    def __init__(self, source: Readable, names: Iterable[str]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._readers: dict[str, Reader] = {}
        for name in list(dict.fromkeys(names))[:_BLOBS]:
            try:
                self._readers[name] = source.reader(name)
            except SealcarError:
                break  # whoever needs it will see

    def fill(self, name: str, allocate: Callable[[int], int]) -> None:
        """Fill memory with a blob: what is ready of it, and the rest.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        with self._lock:
            ready = self._readers.pop(name, None)
        if ready is None:
            # who waits for a connection holds none that others wait for
            self.close()
            with self._source.reader(name) as reader:
                reader.read_into(allocate(reader.size), reader.size)
            return
        with ready:
            size = ready.size
            address = allocate(size)
            try:
                ready.read_into(address, size)
            except ResourceError:
                pass  # the daemon didn't wait so long
            else:
                return
        with self._source.reader(name) as reader:
            reader.read_into(address, size)

    def close(self) -> None:
        """Take no more of those that weren't asked for; others can be read as before."""
        with self._lock:
            readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.__exit__(None, None, None)


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
            threading.Thread(target=self._run, args=(todo,), name="weights", daemon=True).start()

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
