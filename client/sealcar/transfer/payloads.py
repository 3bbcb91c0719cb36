"""Who owns which bytes: every payload that is handed out is in exactly one of these forms.

None knows of ONNX Runtime. No address leaves without the object that keeps it valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from sealcar.closing import Closing
from sealcar.errors import InvalidRequestError, SealcarError, WrongStateError
from sealcar.transfer.any_reader import AnyReader
from sealcar.transfer.incoming import Incoming

if TYPE_CHECKING:
    from types import TracebackType

    from sealcar.transfer.any_reader import Put
    from sealcar.transfer.arriving import ArrivingMemory
    from sealcar.transfer.pool import Pool
    from sealcar.transfer.scopes import ScopeName


@dataclass(frozen=True)
class PayloadRef:
    """A payload that can be asked for: no bytes yet.

    Attributes:
        name: within its scope.
        kind: "model", "initializers", "blob" or "other".
        size: of the plaintext.
        sealed: False: stored in plain, authenticated all the same.
        identity: equal identities mean equal bytes.
    """

    name: str
    kind: str
    size: int
    sealed: bool
    identity: bytes = field(repr=False)


class BorrowedBuffer:
    """Somebody else's bytes, lent for as long as a call lasts.

    Args:
        address: of the first byte.
        size: how many.
        owner: what keeps them valid meanwhile; held here.
    """

    def __init__(self, address: int, size: int, owner: object) -> None:
        self._address = address
        self.size = size
        self._owner: object | None = owner

    @property
    def address(self) -> int:
        """Where the bytes are.

        Raises:
            WrongStateError: the loan has ended.
        """
        if self._owner is None:
            raise WrongStateError("these bytes were lent for one call, which has returned")
        return self._address

    def expire(self) -> None:
        """End the loan: the address isn't given out any more."""
        self._owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.expire()


class Memory(Protocol):
    """What a mapped payload lies in."""

    @property
    def size(self) -> int:
        """Bytes of the payload."""

    @property
    def address(self) -> int:
        """Of the first byte."""

    def view(self) -> memoryview:
        """Return a read-only view; the memory can't be closed while it or a part of it lives."""

    def close(self) -> None:
        """Give the memory back; WrongStateError: somebody still holds a view."""


class MappedPayload(Closing):
    """A whole payload in read-only memory, shared by whoever holds its owner.

    The memory is this process's own, or a segment that all processes share which asked for one.

    Attributes:
        identity: equal identities mean equal bytes.
        alignment: of the address.
    """

    alignment = 4096

    def __init__(self, memory: Memory, identity: bytes) -> None:
        self._memory = memory
        self._closed = False
        self.identity = identity

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return self._memory.size

    @property
    def address(self) -> int:
        """Where it begins; valid as long as `owner` lives and isn't closed.

        Raises:
            WrongStateError: closed.
        """
        self._check()
        return self._memory.address

    @property
    def owner(self) -> object:
        """What keeps the address valid: hold it as long as the address is in use."""
        return self._memory

    @property
    def view(self) -> memoryview:
        """A read-only view, which keeps the memory alive and open.

        Raises:
            WrongStateError: closed.
        """
        self._check()
        return self._memory.view()

    def close(self) -> None:
        """Give the memory back.

        Raises:
            WrongStateError: views of it are still alive.
        """
        self._memory.close()
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise WrongStateError("this mapped payload is closed")


class PayloadReader(AnyReader):
    """One opened payload; it holds one of the client's connections until it is closed."""

    def __init__(self, pool: Pool, scope: ScopeName, name: str, *, spare: bool = False) -> None:
        super().__init__(scope, name)
        self._pool = pool
        self._open = False
        try:
            with self._span.active():
                self._connection, self._incoming = pool.begin(
                    lambda connection: Incoming(connection, scope.message(), name), spare=spare
                )
        except BaseException as error:
            self._span.end(error)
            if isinstance(error, SealcarError):
                raise scope.placed(error, "read", name) from error.__cause__
            raise
        self._open = True
        self.size = self._incoming.size
        self._span.tell(size=self.size, delivery=self._connection.delivery)

    def read(self) -> bytes:
        """Return the whole payload; raises as `read_into`."""
        data = self._incoming.take() if self._open else None
        return super().read() if data is None else data

    def close(self) -> None:
        """Give the connection back; a transfer that was begun and not read is dropped."""
        if not self._open:
            return
        self._open = False
        if not self._incoming.finished:
            self._connection.usable = False
        self._pool.give_back(self._connection)
        self._span.end()

    def bring(self, memory: ArrivingMemory) -> None:
        """Bring the whole payload to those who read it already.

        Raises:
            InvalidRequestError: the sizes differ.
            WrongStateError: read already, closed, or used in a child of fork.
            SealcarError: what went wrong. The memory has been wiped then.
        """
        try:
            with self._span.active():
                if self.size != memory.size:
                    raise InvalidRequestError(
                        f"the payload has {self.size} bytes, the memory {memory.size}"
                    )
                self._check_open()
                memory.fill(self._incoming.bring)
        except SealcarError as error:
            self._span.end(error)
            raise self._scope.placed(error, "transfer", self._name) from error.__cause__

    def _receive(self, address: int) -> None:
        self._check_open()
        self._incoming.read_into(address)

    def _pass_on(self, put: Put) -> None:
        self._check_open()
        self._incoming.pass_on(put)

    def _check_open(self) -> None:
        if not self._open:
            raise WrongStateError("this reader is closed")
