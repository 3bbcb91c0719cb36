"""ONNX Runtime's own format of models: a flatbuffer, told by its identifier and read no further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

# so many bytes of a model are looked at
HEAD: Final = 8
_IDENTIFIER: Final = b"ORTM"


def is_ort_format(data: Buffer) -> bool:
    """Tell from its first bytes whether a model is of that format, as ONNX Runtime tells it.

    Its first word is the place of a table: small, and a multiple of four. A protobuf parser that
    is given such bytes meets a field of number 0, or the end of a group: it is no ONNX model too.

    Raises:
        InvalidPackageError: it may be both.
    """
    with memoryview(data) as given, given.cast("B") as view:
        head = view[:HEAD].tobytes()
    if head[4:] != _IDENTIFIER:
        return False
    if head[2:4] != b"\0\0" or head[0] % 4:
        raise InvalidPackageError("it could be taken for a model in ORT format and for another one")
    return True
