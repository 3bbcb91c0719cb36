"""External initializers: from the daemon into the runtime, and out of a compilation.

A model from memory that names an external file makes ONNX Runtime look on the disk, unless the file
was lent to it. So every name in a model is resolved to a payload of the same variant before the
runtime sees the model; a name without one is an error, never a file.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar.closing import Closing
from sealcar.errors import InvalidPackageError, RequestError, WrongStateError
from sealcar.names import shown
from sealcar.onnxscan.rules import ADDRESS_MARKER
from sealcar.ort import scopes, sources
from sealcar.ort.callbacks import Location
from sealcar.transfer.payloads import BorrowedBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sealcar.onnxscan import ModelScan, Tensor
    from sealcar.ort.runtime import SessionOptions
    from sealcar.ort.sources import Source
    from sealcar.transfer.transactions import Transaction
    from sealcar.transfer.writing import PayloadWriter

# smaller ones stay in the model: a mapping each would cost more than it saves
THRESHOLD: Final = 1 << 16
# a mapping begins at a page
ALIGNMENT: Final = 4096
# what the runtime takes off a name
_HERE: Final = re.compile(r"\A(?:\./+)+")

# external files in memory, by the name that a model gives them
Files: TypeAlias = dict[str, memoryview]
_lent: Final[weakref.WeakKeyDictionary[SessionOptions, list[memoryview]]] = (
    weakref.WeakKeyDictionary()
)


def resolve(found: ModelScan, source: Source, model: str) -> dict[str, str]:
    """Return the payload of each external file, by the name that a model gives it.

    Args:
        found: what the model refers to.
        source: the variant that the model is in.
        model: name of the model's payload.

    Raises:
        InvalidPackageError: a file that is none of the variant's payloads, or a tensor that the
            runtime wouldn't take from memory.
        NotFoundError: a plain package's file that doesn't exist.
    """
    if not found.external:
        return {}
    folder = scopes.weights_folder(source, model)
    payloads: dict[str, str] = {}
    for tensor in found.external:
        location = tensor.external.location if tensor.external else ""
        try:
            if location not in payloads:
                payloads[location] = source.beside(folder, location, sources.INITIALIZERS)
            _check_lendable(tensor, location)
        except RequestError as error:
            text = f"tensor {shown(tensor.name)} lies in {shown(location)}: {error.message}"
            raise source.name.placed(type(error)(text), "open", model) from error
    try:
        _check_names(payloads)
    except InvalidPackageError as error:
        raise source.name.placed(error, "open", model) from None
    return payloads


def _check_lendable(tensor: Tensor, location: str) -> None:
    """Check that the runtime takes a tensor from memory; others it would look for on the disk."""
    if tensor.sparse:
        raise InvalidPackageError("ONNX Runtime reads sparse tensors from the disk alone")
    if not tensor.initializer:
        raise InvalidPackageError("only initializers can have external data")
    if ADDRESS_MARKER in location:
        raise InvalidPackageError("the name is a memory address; ONNX Runtime would look there")


def _check_names(names: Iterable[str]) -> None:
    """Check that no two names are one name to the runtime."""
    known: dict[str, str] = {}
    for name in names:
        twin = known.setdefault(_HERE.sub("", name), name)
        if twin != name:
            raise InvalidPackageError(f"it writes {shown(name)} as {shown(twin)}, too")


def fetch(source: Source, payloads: Mapping[str, str]) -> Files:
    """Read external files into memory of their own, each once.

    Args:
        source: the variant that they are in.
        payloads: as `resolve` returns them.

    Raises:
        SealcarError: what went wrong, with scope and name.
    """
    views = {payload: source.view(payload) for payload in dict.fromkeys(payloads.values())}
    # the runtime takes "./" off the name under which it gets a file; older ones don't take it off
    # the name in the model
    return {f"./{location}": views[payload] for location, payload in payloads.items()}


def lend(session_options: SessionOptions, files: Files) -> None:
    """Lend files to the sessions that are made with these options.

    The runtime copies what a session needs while it makes it, but options keep bare addresses for
    good: so the memory lives as long as they do.

    Raises:
        WrongStateError: the options were lent files of these names before.
    """
    if not files:
        return
    names, views = list(files), list(files.values())
    try:
        session_options.add_external_initializers_from_files_in_memory(
            names, views, [view.nbytes for view in views]
        )
    except RuntimeError as error:
        raise WrongStateError(
            "these session options have been used for a model with external initializers already; "
            "make new ones for each such model"
        ) from error
    finally:
        _lent.setdefault(session_options, []).extend(views)


class Outlet(Closing):
    """A location function: what is left of a model's weights goes into one payload, in order.

    Args:
        transaction: that the payload is written to.
        name: of the payload, which the compiled model names too.
    """

    def __init__(self, transaction: Transaction, name: str) -> None:
        self._transaction = transaction
        self.name = name
        self._writer: PayloadWriter | None = None
        self._at = 0

    @property
    def used(self) -> bool:
        """Whether anything was written."""
        return self._writer is not None

    def __call__(self, name: str, address: int, size: int, /) -> Location | None:
        """Take one initializer, unless it is small.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        del name
        if size < THRESHOLD:
            return None
        if self._writer is None:
            self._writer = self._transaction.writer(self.name, "initializers")
        gap = -self._at % ALIGNMENT
        if gap:
            self._writer.write(bytes(gap))
        with BorrowedBuffer(address, size, self) as lent:
            self._writer.write(lent)
        start = self._at + gap
        self._at = start + size
        return Location(self.name, start, size)

    def finish(self) -> None:
        """End the payload, if there is one.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        if self._writer is not None:
            self._writer.finish()

    def close(self) -> None:
        """Break off what wasn't finished."""
        if self._writer is not None:
            self._writer.close()
