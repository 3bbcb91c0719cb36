"""Writing one variant: from begin to commit or abort."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Self

from sealcar.asking import asking
from sealcar.errors import InvalidNameError, InvalidRequestError, SealcarError, WrongStateError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.forking import ForkLock
from sealcar.transfer.payloads import BorrowedBuffer, PayloadRef
from sealcar.transfer.reading import Scope
from sealcar.transfer.scopes import ScopeName, payload_kind
from sealcar.transfer.writing import PayloadWriter
from sealcar.v1 import data_socket_pb2 as pb
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Buffer

    from sealcar.transfer.pool import Pool

# publishing waits for the disk
_COMMIT_PATIENCE: Final = 600.0


class Transaction:
    """Payloads that become visible together at `commit`, or not at all.

    As a context manager it aborts unless it was committed. Its own connection stays open all the
    time: when this process goes, the daemon throws the transaction away. Several payloads may be
    written at the same time by several threads.

    Attributes:
        scope: what is written, with the version and generation that it is based on.
    """

    def __init__(self, pool: Pool, name: ScopeName) -> None:
        self._pool = pool
        self._lock = ForkLock()
        self._written: dict[str, PayloadRef] = {}
        self._ended = False
        self._committed: Scope | None = None
        self.scope = name
        self._connection = pool.connect()
        request = pb.ClientPacket(begin=payloads_pb2.BeginRequest(scope=name.message()))
        try:
            begun = self._connection.request(request, "begun").begun
        except SealcarError as error:
            self._connection.close()
            raise name.placed(error, "begin") from error.__cause__
        except BaseException:
            self._connection.close()
            raise
        self._id: bytes = begun.transaction
        self.scope = ScopeName.of(begun.scope)

    @property
    def names(self) -> tuple[str, ...]:
        """The payloads written so far."""
        with self._lock:
            return tuple(self._written)

    def write(self, name: str, data: Buffer | BorrowedBuffer, kind: str) -> PayloadRef:
        """Write one payload and wait until it is sealed and on disk.

        Args:
            name: of the payload; each can be written once.
            data: its bytes, the caller's again when this returns.
            kind: "model", "initializers", "blob" or "other".

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        if not isinstance(data, BorrowedBuffer):
            with Exported(data) as whole, BorrowedBuffer(whole.address, whole.size, data) as lent:
                return self.write(name, lent, kind)
        with self._writer(name, kind, data.size) as writer:
            writer.write(data)
            return writer.finish()

    def writer(self, name: str, kind: str) -> PayloadWriter:
        """Return a writer for a payload whose size isn't known yet.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        return self._writer(name, kind, None)

    def commit(
        self,
        *,
        ep: str = "",
        device: str = "",
        compatibility: str = "",
        executor_info: Mapping[str, object] | None = None,
    ) -> Scope:
        """Publish everything written; return where it is now. Repeating it returns the same.

        When the answer is lost with the daemon (UnavailableError) it may be published or not.

        Args:
            ep: execution provider that the variant is for; empty: any.
            device: kind of device; empty: any.
            compatibility: what the execution provider left to recognise its machine by.
            executor_info: namespace to object.

        Raises:
            SealcarError: what the daemon found; nothing is published then.
        """
        if self._committed is not None:
            return self._committed
        with asking():
            request = payloads_pb2.CommitRequest(
                transaction=self._id,
                payloads=len(self._written),
                ep=ep,
                device=device,
                compatibility=compatibility,
                executor_info_json=_json(executor_info),
            )
        answer = self._ask("commit", pb.ClientPacket(commit=request), "committed")
        self._end()
        self._committed = Scope(self._pool, ScopeName.of(answer.committed.scope))
        return self._committed

    def abort(self) -> None:
        """Throw everything written away; nothing happens if it has ended already."""
        if self._ended:
            return
        if self._connection.inherited:
            self._end()
            return
        try:
            request = payloads_pb2.AbortRequest(transaction=self._id)
            self._ask("abort", pb.ClientPacket(abort=request), "aborted")
        finally:
            self._end()

    def _ask(self, phase: str, packet: pb.ClientPacket, wanted: str) -> pb.DaemonPacket:
        try:
            with self._lock:
                if self._ended:
                    raise WrongStateError("this transaction has ended")
                return self._connection.request(packet, wanted, patience=_COMMIT_PATIENCE)
        except SealcarError as error:
            raise self.scope.placed(error, phase) from error.__cause__

    def _writer(self, name: str, kind: str, size: int | None) -> PayloadWriter:
        try:
            if self._ended:
                raise WrongStateError("this transaction has ended")
            self._connection.check_process()
            begin = payloads_pb2.WriteBegin(
                transaction=self._id, name=name, kind=payload_kind(kind), size=size
            )
        except SealcarError as error:
            raise self.scope.placed(error, "write", name) from error.__cause__
        except (TypeError, ValueError) as error:
            refused = InvalidNameError(f"not a payload's name: {error}")
            raise self.scope.placed(refused, "write") from None
        return PayloadWriter(self._pool, self.scope, begin, self._count)

    def _count(self, reference: PayloadRef) -> None:
        with self._lock:
            self._written[reference.name] = reference

    def _end(self) -> None:
        self._ended = True
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.abort()
        except SealcarError:
            # what ended the block says more than that there is nobody left to tell
            if error is None:
                raise


def _json(executor_info: Mapping[str, object] | None) -> str:
    if not executor_info:
        return ""
    try:
        return json.dumps(executor_info, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"executor_info isn't JSON: {error}") from error
