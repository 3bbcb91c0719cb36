"""Weights as values of the runtime over the memory that they lie in already.

A value over this process's own memory is made so that the runtime says when it needs it no more:
at the latest when the session goes, and earlier for a weight that it has packed a copy of. Then the
pages go back to the system.
"""

from __future__ import annotations

import re
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealcar.ort import runtime
from sealcar.transfer import memory
from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sealcar.onnxscan import Tensor
    from sealcar.ort.initializers import Files

_OF_THE_MODEL: Final = re.compile(r"graph\.initializer\[\d+\]")
# by TensorProto.DataType, the numpy type of an element, or of the bytes that elements share
_TYPES: Final = {
    **dict.fromkeys((1,), "<f4"),
    **dict.fromkeys((2, 17, 18, 19, 20), "u1"),
    **dict.fromkeys((4, 10, 16), "<u2"),
    **dict(zip((3, 5, 6, 7), ("i1", "<i2", "<i4", "<i8"), strict=True)),
    **dict(zip((9, 11, 12, 13), ("?", "<f8", "<u4", "<u8"), strict=True)),
    **dict.fromkeys((21, 22), "u1"),
}
# those that DLPack has by the same name, which is how the runtime says when it has done
_RETURNED: Final = {1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8"} | {
    10: "<f2",
    11: "<f8",
    12: "<u4",
    13: "<u8",
}


class _Loan:
    """The memory of one weight, as numpy takes it: writable, which it isn't, for DLPack's sake.

    Where elements share bytes the array says that it has more than there are: it is for the runtime
    alone, which takes address and shape, and knows the type.
    """

    def __init__(self, data: memoryview, kind: str, dims: Sequence[int]) -> None:
        self._data = data
        with Exported(data) as lent:
            address = lent.address
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "typestr": kind,
            "shape": tuple(dims),
        }


@dataclass
class Lent:
    """Weights over the memory that they lie in.

    Attributes:
        values: by name; nothing if one can't be borrowed.
        kept: those that don't keep their memory by themselves, so that the session has to.
    """

    values: dict[str, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)


def lend(weights: Sequence[Tensor], files: Files, *, own: bool) -> Lent:
    """Return each weight over the memory of its file.

    Args:
        weights: every tensor of the model that lies in a file.
        files: as `initializers.fetch` returns them.
        own: the memory is this process's alone: what the runtime has done with goes back.
    """
    found = Lent()
    returned = own and not _overlap(weights)
    for tensor in weights:
        data = _data(tensor, files)
        if data is None or tensor.name in found.values:
            return Lent()
        again = returned and tensor.data_type in _RETURNED
        value = _returned(tensor, data) if again else _borrowed(tensor, data)
        if value is None:
            return Lent()
        found.values[tensor.name] = value
        if not again:
            found.kept.append(value)
    return found


def _data(tensor: Tensor, files: Files) -> memoryview | None:
    external, size = tensor.external, tensor.byte_size
    known = tensor.data_type in _TYPES and _OF_THE_MODEL.fullmatch(tensor.path)
    if external is None or not size or not known:
        return None
    file = files[f"./{external.location}"]
    if external.length not in (None, size) or external.offset + size > file.nbytes:
        return None
    return file[external.offset : external.offset + size]


def _borrowed(tensor: Tensor, data: memoryview) -> object | None:
    """Return a value over memory that somebody else has to keep."""
    array = runtime.numpy().asarray(_Loan(data, _TYPES[tensor.data_type], tensor.dims))
    if not array.flags.aligned:
        return None
    value: Any = runtime.onnxruntime().OrtValue.ortvalue_from_numpy_with_onnx_type(
        array, tensor.data_type
    )
    return value if value.data_ptr() == array.ctypes.data else None


def _returned(tensor: Tensor, data: memoryview) -> Any | None:  # noqa: ANN401  (the runtime's)
    """Return a value that keeps its memory, and gives it back."""
    loan = _Loan(data, _RETURNED[tensor.data_type], tensor.dims)
    array = runtime.numpy().asarray(loan)
    if not array.flags.aligned:
        return None
    value: Any = runtime.onnxruntime().OrtValue.from_dlpack(array)
    if value.data_ptr() != array.ctypes.data:
        return None
    # on whichever thread the runtime lets it go
    weakref.finalize(loan, _give_back, data, array.ctypes.data).atexit = False
    return value


def _give_back(data: memoryview, address: int) -> None:
    memory.give_back(address, data.nbytes)


def _overlap(weights: Iterable[Tensor]) -> bool:
    """Tell whether two weights share bytes: then neither's pages can go before the other's."""
    ends: dict[str, int] = {}
    spans = sorted(
        (one.external.location, one.external.offset, one.byte_size or 0)
        for one in weights
        if one.external is not None
    )
    for location, offset, size in spans:
        if offset < ends.get(location, 0):
            return True
        ends[location] = max(ends.get(location, 0), offset + size)
    return False
