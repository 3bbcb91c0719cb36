"""Payloads over gRPC, for those who can't be handed a descriptor: the daemon is elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import (
    NotAuthenticError,
    TruncatedError,
    WrongStateError,
)
from sealcar.transfer import memory
from sealcar.transfer.any_reader import AnyReader
from sealcar.transfer.any_scope import AnyScope
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.scopes import OpenedScope, opened_scope
from sealcar.v1 import payloads_pb2 as pb
from sealcar.v1.payloads_pb2_grpc import PayloadsStub

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar import rpc
    from sealcar.transfer.any_reader import Put
    from sealcar.transfer.payloads import PayloadRef
    from sealcar.transfer.scopes import ScopeName


class RemoteReader(AnyReader):
    """One payload, as a stream of messages; nothing is asked for before it is read."""

    def __init__(self, channel: rpc.Channel, scope: ScopeName, payload: PayloadRef) -> None:
        super().__init__(scope, payload.name)
        self._channel = channel
        self._unread = True
        self.size = payload.size
        self._span.tell(size=self.size, delivery="grpc")

    def close(self) -> None:
        """Nothing can be read any more."""
        self._unread = False
        self._span.end()

    def _receive(self, address: int) -> None:
        self._begin()
        memory.advise_huge(address, self.size)
        try:
            self._drain(lambda offset, lies, size: memory.copy(address + offset, lies, size))
        except BaseException:
            memory.wipe(address, self.size)
            raise

    def _pass_on(self, put: Put) -> None:
        self._begin()
        self._drain(put)

    def _begin(self) -> None:
        if not self._unread:
            raise WrongStateError("this reader was used, or is closed")
        self._unread = False

    def _drain(self, put: Put) -> None:
        request = pb.ReadRequest(scope=self._scope.message(), name=self._name)
        done = 0
        with self._channel.translating("transfer"):
            call = PayloadsStub(self._channel.get()).Read(request)
            try:
                with self._channel.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        if len(answer.data) > self.size - done:
                            raise NotAuthenticError("the daemon sent more than the payload has")
                        with Exported(answer.data) as piece:
                            put(done, piece.address, piece.size)
                        done += len(answer.data)
            finally:
                call.cancel()
        if done != self.size:
            raise TruncatedError(f"{done} of {self.size} bytes came")


class RemoteScope(AnyScope):
    """One state of one variant at a daemon elsewhere.

    Args:
        channel: to the daemon.
        name: what is meant; what is empty in it, the daemon or `resolve` fills in.
        resolve: finds the component and variant where the caller named none.
    """

    def __init__(
        self,
        channel: rpc.Channel,
        name: ScopeName,
        resolve: Callable[[ScopeName], ScopeName] | None = None,
    ) -> None:
        super().__init__(name, resolve)
        self._channel = channel

    def reader(self, name: str) -> RemoteReader:
        """Return a reader, which knows the size before the destination is allocated.

        Raises:
            NotFoundError: the scope has no payload of that name.
            SealcarError: what went wrong, with scope and name.
        """
        return RemoteReader(self._channel, self.name, self.payload(name))

    def _ask(self, name: ScopeName) -> OpenedScope:
        def page(request: pb.OpenRequest) -> pb.OpenResponse:
            with self._channel.translating("open"):
                stub = PayloadsStub(self._channel.get())
                return stub.Open(request, timeout=self._channel.timeout)

        return opened_scope(page, name)
