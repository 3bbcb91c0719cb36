"""A scope as its readers see it: opened on first use, each payload in the form they ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from sealcar import tracing
from sealcar.errors import NotFoundError, RequestError, SealcarError
from sealcar.transfer import references
from sealcar.transfer.forking import ForkLock
from sealcar.transfer.memory import PrivateMemory
from sealcar.transfer.named import NamedMemory, filled
from sealcar.transfer.payloads import MappedPayload
from sealcar.transfer.segments import SegmentMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.transfer.any_reader import AnyReader
    from sealcar.transfer.arriving import ArrivingPayload
    from sealcar.transfer.payloads import PayloadRef
    from sealcar.transfer.scopes import OpenedScope, ScopeName

_Form = TypeVar("_Form")


class AnyScope(ABC):
    """One state of one variant. What isn't known yet opens it; later reads stay with it.

    Args:
        name: what is meant; what is empty in it, the daemon or `resolve` fills in.
        resolve: finds the component and variant where the caller named none.
    """

    def __init__(
        self, name: ScopeName, resolve: Callable[[ScopeName], ScopeName] | None = None
    ) -> None:
        self._asked = name
        self._resolve = resolve
        self._lock = ForkLock()
        self._opened: OpenedScope | None = None

    def open(self) -> OpenedScope:
        """Return what the daemon says of it, asked for once.

        Raises:
            SealcarError: what the daemon answered.
        """
        if self._opened is not None:
            return self._opened
        with self._lock:
            if self._opened is None:
                with tracing.span("open", **tracing.of_scope(self._asked)):
                    self._opened = self._find()
            return self._opened

    def _find(self) -> OpenedScope:
        name = self._resolve(self._asked) if self._resolve else self._asked
        try:
            return self._ask(name)
        except SealcarError as error:
            raise name.placed(error, "open") from error.__cause__

    @property
    def name(self) -> ScopeName:
        """The whole name, with the version and generation that were opened."""
        asked = self._asked
        exact = self._resolve is None and asked.version and asked.generation
        return asked if exact else self.open().name

    @property
    def package(self) -> str:
        """Store name of the package."""
        return self.name.package

    @property
    def version(self) -> str:
        """Store version of the package."""
        return self.name.version

    @property
    def component(self) -> str:
        """Component of the package."""
        return self.name.component

    @property
    def variant(self) -> str:
        """Variant of the component."""
        return self.name.variant

    @property
    def generation(self) -> int:
        """The state of the package that is read."""
        return self.name.generation

    @property
    def ep(self) -> str:
        """Execution provider that the variant is for; empty: any."""
        return self.open().ep

    @property
    def device(self) -> str:
        """Kind of device; empty: any."""
        return self.open().device

    @property
    def compatibility(self) -> str:
        """What the execution provider left to recognise its machine by; empty: nothing."""
        return self.open().compatibility

    @property
    def executor_info(self) -> Mapping[str, object]:
        """Namespace to object. It comes with the package: option names in it are untrusted."""
        return self.open().executor_info

    @property
    def payloads(self) -> tuple[PayloadRef, ...]:
        """All payloads, in the order of the seal record."""
        return self.open().payloads

    def payload(self, name: str) -> PayloadRef:
        """Return one payload's description.

        Raises:
            NotFoundError: the scope has no payload of that name.
        """
        for reference in self.payloads:
            if reference.name == name:
                return reference
        error = NotFoundError("the variant has no payload of that name")
        raise self.name.placed(error, "open", name)

    def resolve(self, reference: str) -> str:
        """Return the name of the payload that a reference of `executor_info` leads to.

        Raises:
            InvalidNameError: it leads out of the variant, or of a shared asset.
            NotFoundError: the scope has no such payload.
        """
        try:
            return references.resolve(reference, self._names())
        except RequestError as error:
            raise self.name.placed(error, "open", reference) from None

    def resolve_folder(self, reference: str) -> str:
        """Return what the names of all payloads begin with that lie in the folder of a reference.

        Raises:
            InvalidNameError: it leads out of the variant, or of a shared asset.
            NotFoundError: the scope has no payload there.
        """
        try:
            return references.resolve_folder(reference, self._names())
        except RequestError as error:
            raise self.name.placed(error, "open", reference) from None

    def _names(self) -> frozenset[str]:
        return frozenset(payload.name for payload in self.payloads)

    @abstractmethod
    def reader(self, name: str) -> AnyReader:
        """Return a reader, which knows the size before the destination is allocated.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """

    def reader_ahead(self, name: str) -> AnyReader:
        """Return a reader of what isn't read at once, unless others could have to wait for it.

        Raises:
            TimedOutError: no connection is to spare.
            SealcarError: what went wrong, with scope and name.
        """
        return self.reader(name)

    @abstractmethod
    def _ask(self, name: ScopeName) -> OpenedScope:
        """Ask the daemon what it says of a scope."""

    def read(self, name: str) -> bytes:
        """Return a payload as bytes: for small ones, and for what takes nothing but `bytes`.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        with self.reader(name) as reader:
            return reader.read()

    def map(self, name: str, *, shared: bool = False) -> MappedPayload:
        """Return a payload in read-only memory that tensors can be made over.

        Args:
            name: of the payload.
            shared: in memory that all processes share which ask for it like this, in place of
                memory of this process's own. It counts in the daemon's `transfer.memory_limit`
                until the last of them has let it go. A daemon elsewhere, or of an older release,
                shares nothing: then it is private.

        Raises:
            ExhaustedError: the daemon has no room for a shared one.
            SealcarError: what went wrong, with scope and name.
        """
        if shared:
            segment = self._share(self.payload(name), SegmentMemory)
            if segment is not None:
                return MappedPayload(segment, self.payload(name).identity)
        identity = self.payload(name).identity
        with self.reader(name) as reader:
            memory = PrivateMemory(reader.size)
            try:
                reader.read_into(memory.address, reader.size)
            except BaseException:
                memory.close()
                raise
        memory.freeze()
        return MappedPayload(memory, identity)

    def named(self, name: str, *, shared: bool = False) -> NamedMemory | None:
        """Return a payload in memory that has a path, for who takes nothing but files.

        None where there is none to be had.

        Args:
            name: of the payload, which isn't empty.
            shared: in memory that all processes share which ask for it like this; as in `map`.

        Raises:
            ExhaustedError: the system has no memory left, or the daemon no room for a shared one.
            SealcarError: what went wrong, with scope and name.
        """
        payload = self.payload(name)
        segment = self._share(payload, NamedMemory) if shared else None
        if segment is not None:
            return segment

        def fill(descriptor: int) -> None:
            with self.reader(name) as reader:
                reader.write_to(descriptor, payload.size)

        return filled(payload.size, fill)

    def arriving(self, name: str) -> ArrivingPayload | None:  # noqa: ARG002  (others use it)
        """Return a payload in memory that native code may read before all of it has come.

        None where there is none to be had: of what is small, from a daemon elsewhere, or on a
        kernel that can't let a reader wait for a page.

        Raises:
            NotFoundError: the scope has no payload of that name.
        """
        return None

    def _share(
        self,
        payload: PayloadRef,  # noqa: ARG002  (others use it)
        form: Callable[[int, int], _Form],  # noqa: ARG002  (the same)
    ) -> _Form | None:
        """Return a payload in shared memory, held so; None where there is none to be had."""
        return None

    def __repr__(self) -> str:
        """Name what was asked for, without opening it."""
        return f"{type(self).__name__}({self._asked})"
