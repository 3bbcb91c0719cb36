"""A scope of a daemon on this machine, which shares memory with its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sealcar import tracing
from sealcar.errors import SealcarError
from sealcar.transfer.any_scope import AnyScope
from sealcar.transfer.arriving import LEAST, ArrivingMemory, ArrivingPayload
from sealcar.transfer.dialling import NoSharedMemoryError
from sealcar.transfer.payloads import PayloadReader
from sealcar.transfer.scopes import OpenedScope, ScopeName, open_scope
from sealcar.transfer.segments import receive_segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.transfer.payloads import PayloadRef
    from sealcar.transfer.pool import Pool

_Form = TypeVar("_Form")


class Scope(AnyScope):
    """One state of one variant. What isn't known yet opens it; later reads stay with it.

    Args:
        pool: the client's connections.
        name: what is meant; what is empty in it, the daemon or `resolve` fills in.
        resolve: finds the component and variant where the caller named none.
    """

    def __init__(
        self, pool: Pool, name: ScopeName, resolve: Callable[[ScopeName], ScopeName] | None = None
    ) -> None:
        super().__init__(name, resolve)
        self._pool = pool

    def reader(self, name: str) -> PayloadReader:
        """Return a reader, which knows the size before the destination is allocated.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        return PayloadReader(self._pool, self.name, name)

    def reader_ahead(self, name: str) -> PayloadReader:
        """Return a reader of what isn't read at once, unless others could have to wait for it.

        Raises:
            TimedOutError: no connection is to spare.
            SealcarError: what went wrong, with scope and name.
        """
        return PayloadReader(self._pool, self.name, name, spare=True)

    def arriving(self, name: str) -> ArrivingPayload | None:
        """Return a payload in memory that native code may read before all of it has come.

        None where there is none to be had: of what is small, or on a kernel that can't let a reader
        wait for a page.

        Raises:
            NotFoundError: the scope has no payload of that name.
        """
        size = self.payload(name).size
        if size < LEAST:
            return None
        try:
            memory = ArrivingMemory(size)
        except (OSError, ValueError, OverflowError):
            return None
        return ArrivingPayload(memory, lambda: self.reader(name))

    def _share(self, payload: PayloadRef, form: Callable[[int, int], _Form]) -> _Form | None:
        if not payload.size:
            return None  # nothing to map
        named = {**tracing.of_scope(self.name), "payload": payload.name, "size": payload.size}
        with tracing.span("read", **named, delivery="segment"):
            return self._shared(payload, form)

    def _shared(self, payload: PayloadRef, form: Callable[[int, int], _Form]) -> _Form | None:
        try:
            with self._pool.leased() as connection:
                if not connection.attested.segments:
                    return None
                scope = self.name.message()
                return receive_segment(connection, scope, payload.name, payload.size, form)
        except NoSharedMemoryError as error:
            if self._pool.delivery.falls_back(error):
                return None
            raise self.name.placed(error, "transfer", payload.name) from error.__cause__
        except SealcarError as error:
            raise self.name.placed(error, "transfer", payload.name) from error.__cause__

    def _ask(self, name: ScopeName) -> OpenedScope:
        with self._pool.leased() as connection:
            return open_scope(connection, name)
