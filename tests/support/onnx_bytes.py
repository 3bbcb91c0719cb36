"""Models for tests that care for bytes: whatever a test wants to store, inside of a real one."""

from __future__ import annotations

from typing import Final

_DOC_STRING: Final = b"\x32"
# a graph with nothing in it
_GRAPH: Final = b"\x3a\x00"


def model_around(data: bytes) -> bytes:
    """Return an ONNX model whose description is `data`."""
    return _GRAPH + _DOC_STRING + _length(len(data), 1) + data


def model_of(size: int, data: bytes = b"") -> bytes:
    """Return an ONNX model of exactly `size` bytes, of which the last ones are those of `data`."""
    head = _GRAPH + _DOC_STRING
    for width in range(1, 6):
        rest = size - len(head) - width
        if 0 <= rest < 1 << 7 * width:
            filled = (data or b"m")[-rest:] if rest else b""
            return head + _length(rest, width) + filled.rjust(rest, b"m")
    raise ValueError(f"no model has {size} bytes")


def _length(value: int, width: int) -> bytes:
    out = bytearray()
    while value > 0x7F or len(out) < width - 1:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


TINY: Final = model_around(b"")
