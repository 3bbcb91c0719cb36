"""One payload, to be read once, straight into its final destination, wherever it comes from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from sealcar import tracing
from sealcar.closing import Closing
from sealcar.errors import InvalidRequestError, SealcarError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import new_bytes, write

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from sealcar.transfer.scopes import ScopeName

# moves a piece: its offset in the payload, the address where it lies meanwhile, its size
Put: TypeAlias = Callable[[int, int, int], None]


class AnyReader(Closing):
    """One payload. Use it in a `with` block.

    Attributes:
        size: of the payload.
    """

    size: int

    def __init__(self, scope: ScopeName, name: str) -> None:
        self._scope, self._name = scope, name
        self._span = tracing.begin_payload("read", scope, name)

    def read_into(self, target: int | Buffer, size: int | None = None) -> None:
        """Fill the target with the whole payload.

        Args:
            target: address of at least `size` bytes that the caller keeps alive, or a writable
                buffer.
            size: must be the payload's; may be left out for a buffer.

        Raises:
            InvalidRequestError: the sizes differ, or the buffer can't be written to.
            WrongStateError: read already, closed, or used in a child of fork.
            SealcarError: what went wrong. The target has been wiped then.
        """
        try:
            with self._span.active():
                self._fill_target(target, size)
        except SealcarError as error:
            self._span.end(error)
            raise self._scope.placed(error, "transfer", self._name) from error.__cause__

    def _fill_target(self, target: int | Buffer, size: int | None) -> None:
        if isinstance(target, int):
            self._fill(target, size if size is not None else -1)
            return
        with Exported(target, writable=True) as buffer:
            if size is not None and size != buffer.size:
                raise InvalidRequestError(f"the buffer has {buffer.size} bytes, not {size}")
            self._fill(buffer.address, buffer.size)

    def write_to(self, descriptor: int, size: int) -> None:
        """Write the whole payload to the beginning of a file in memory, piece by piece.

        Args:
            descriptor: of the file; what is in it when this fails, the caller has to drop.
            size: must be the payload's.

        Raises:
            InvalidRequestError: the sizes differ.
            ExhaustedError: the system has no memory left.
            WrongStateError: read already, closed, or used in a child of fork.
            SealcarError: what went wrong.
        """
        try:
            with self._span.active():
                if size != self.size:
                    raise InvalidRequestError(f"the payload has {self.size} bytes, not {size}")
                self._pass_on(partial(write, descriptor))
        except SealcarError as error:
            self._span.end(error)
            raise self._scope.placed(error, "transfer", self._name) from error.__cause__

    def read(self) -> bytes:
        """Return the whole payload.

        Raises:
            SealcarError: as `read_into`.
        """
        data = new_bytes(self.size)  # nobody else has a reference to it
        with Exported(data) as buffer:
            self.read_into(buffer.address, buffer.size)
        return data

    @abstractmethod
    def _receive(self, address: int) -> None:
        """Fill `size` bytes at an address, all of them or wiped; WrongStateError: not once more."""

    @abstractmethod
    def _pass_on(self, put: Put) -> None:
        """Have every piece moved from where it lies; WrongStateError: not once more."""

    def _fill(self, address: int, size: int) -> None:
        if size != self.size:
            raise InvalidRequestError(f"the payload has {self.size} bytes, the target {size}")
        if address <= 0 < size:
            raise InvalidRequestError("the target's address is null")
        self._receive(address)
