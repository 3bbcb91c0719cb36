"""One payload of a transaction on its way to the daemon, as its writer sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar import tracing
from sealcar.closing import Closing
from sealcar.errors import SealcarError, WrongStateError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.outgoing import Outgoing
from sealcar.transfer.payloads import BorrowedBuffer, PayloadRef
from sealcar.transfer.scopes import ScopeName, payload_ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from sealcar.transfer.pool import Pool
    from sealcar.v1 import payloads_pb2


class PayloadWriter(Closing):
    """One payload of a transaction, written in order; its size is known at the end.

    Use it in a `with` block and call `finish`: a writer that is left without it breaks its
    transfer off, and the transaction can't be committed with that payload.
    """

    def __init__(
        self,
        pool: Pool,
        scope: ScopeName,
        begin: payloads_pb2.WriteBegin,
        finished: Callable[[PayloadRef], None],
    ) -> None:
        self._pool, self._scope, self._name = pool, scope, begin.name
        self._finished = finished
        self._open = False
        self._span = tracing.begin_payload("write", scope, self._name)
        try:
            with self._span.active():
                self._connection, self._outgoing = pool.begin(
                    lambda connection: Outgoing(connection, begin)
                )
        except BaseException as error:
            self._span.end(error)
            if isinstance(error, SealcarError):
                raise self._placed(error) from error.__cause__
            raise
        self._open = True

    def write(self, data: Buffer | BorrowedBuffer) -> None:
        """Take the next bytes; they are the caller's again when this returns.

        Raises:
            WrongStateError: finished, closed, or used in a child of fork.
            SealcarError: what the daemon answered; the payload can't be finished then.
        """
        try:
            self._check()
            if isinstance(data, BorrowedBuffer):
                self._outgoing.write(data.address, data.size)
                return
            with Exported(data) as buffer:
                self._outgoing.write(buffer.address, buffer.size)
        except SealcarError as error:
            self._span.end(error)
            self.close()
            raise self._placed(error) from error.__cause__

    def finish(self) -> PayloadRef:
        """Wait until the payload is sealed and on disk.

        Raises:
            WrongStateError: finished, closed, or used in a child of fork.
            SealcarError: what the daemon answered.
        """
        try:
            self._check()
            reference = payload_ref(self._outgoing.finish())
        except SealcarError as error:
            self._span.end(error)
            self._release(usable=False)
            raise self._placed(error) from error.__cause__
        self._span.tell(size=reference.size)
        self._release(usable=True)
        self._finished(reference)
        return reference

    def close(self) -> None:
        """Break the transfer off unless it is finished; the name is free again then."""
        if not self._open:
            return
        try:
            self._outgoing.cancel()
        except SealcarError:
            self._release(usable=False)
        else:
            self._release(usable=True)

    def _check(self) -> None:
        if not self._open:
            raise WrongStateError("this writer is finished or closed")

    def _release(self, *, usable: bool) -> None:
        if self._open:
            self._open = False
            self._connection.usable = self._connection.usable and usable
            self._pool.give_back(self._connection)
            self._span.end()

    def _placed(self, error: SealcarError) -> SealcarError:
        return self._scope.placed(error, "write", self._name)
