"""ONNX Runtime's own format of models: a flatbuffer, told by its identifier and read no further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_IDENTIFIER: Final = b"ORTM"
_AT: Final = 4


def is_ort_format(data: Buffer) -> bool:
    """Tell from its first bytes whether a model is of that format, as ONNX Runtime tells it."""
    with memoryview(data) as given, given.cast("B") as view:
        end = _AT + len(_IDENTIFIER)
        return len(view) > end and view[_AT:end].tobytes() == _IDENTIFIER
