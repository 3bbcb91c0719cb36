"""Reads one TensorProto: what it is and where its data lies, never the data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.names import shown
from sealcar.onnxscan import schema
from sealcar.onnxscan.values import External, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealcar.onnxscan.wire import Found, Span, WireReader

_MAX_RANK: Final = 1024
_MAX_TEXT: Final = 1 << 16
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_LARGEST: Final = (1 << 63) - 1


def read_tensor(
    reader: WireReader, span: Span, path: str, *, initializer: bool, sparse: bool
) -> Tensor:
    """Return the tensor at the span.

    Raises:
        InvalidPackageError: malformed, or it has its data in two places.
    """
    found = reader.read(span, schema.TENSOR, path)
    name = found.text(schema.TENSOR_NAME, _MAX_TEXT)
    what = f"tensor {shown(name)} ({path})"
    dims = found.integers(schema.TENSOR_DIMS)
    if len(dims) > _MAX_RANK or any(dim < 0 for dim in dims):
        raise InvalidPackageError(f"{what}: a dimension is negative, or there are over {_MAX_RANK}")
    return Tensor(
        name=name,
        data_type=found.integer(schema.TENSOR_TYPE) & 0xFFFF_FFFF,
        dims=dims,
        path=path,
        initializer=initializer,
        sparse=sparse,
        inline=found.span(schema.TENSOR_RAW),
        external=_external(reader, found, what),
    )


def entries(
    reader: WireReader, spans: Iterable[Span], what: str, limit: int = _MAX_TEXT
) -> Iterator[tuple[str, str]]:
    """Yield key-value pairs, each key once.

    Raises:
        InvalidPackageError: malformed, or a key occurs twice.
    """
    seen = set()
    for span in spans:
        found = reader.read(span, schema.ENTRY, what)
        key = found.text(schema.ENTRY_KEY)
        if key in seen:
            raise InvalidPackageError(f"{what}: key {shown(key)} occurs twice")
        seen.add(key)
        yield key, found.text(schema.ENTRY_VALUE, limit)


def _external(reader: WireReader, found: Found, what: str) -> External | None:
    """Return the reference to another file.

    A tensor that has its data here *and* elsewhere is refused: readers differ in which of them they
    take.
    """
    location = found.integer(schema.TENSOR_LOCATION)
    spans = found.spans(schema.TENSOR_EXTERNAL)
    if location not in (0, 1):
        raise InvalidPackageError(f"{what}: data_location {location} is unknown")
    if not location:
        if spans:
            raise InvalidPackageError(f"{what}: external_data, but data_location isn't EXTERNAL")
        return None
    inline = (schema.TENSOR_RAW, *schema.TENSOR_TYPED)
    if any(number in found for number in inline):
        raise InvalidPackageError(f"{what}: data both in the model and external")
    values = dict(entries(reader, spans, f"{what}: external_data"))
    if "location" not in values:
        raise InvalidPackageError(f"{what}: external_data has no location")
    length = values.pop("length", None)
    return External(
        location=values.pop("location"),
        offset=_number(values.pop("offset", "0"), "offset", what),
        length=None if length is None else _number(length, "length", what),
        others=values,
    )


def _number(text: str, key: str, what: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _LARGEST:
        raise InvalidPackageError(f"{what}: {key} {shown(text)} must be a decimal number < 2^63")
    return int(text)
