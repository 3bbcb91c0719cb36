"""Moves a model's big initializers into a file of their own, by rewriting its bytes.

No message object is built and no tensor is copied: the result is a list of views of the original
and a few small pieces between them. Everything but the moved tensors' data stays byte for byte what
it was; one entry is added to its metadata, the digest of the model that it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from sealcar.errors import InvalidPackageError
from sealcar.onnxscan import schema
from sealcar.onnxscan.scanner import MAX_MODEL
from sealcar.onnxscan.values import STRING
from sealcar.onnxscan.wire import (
    VARINT,
    Kind,
    Span,
    WireReader,
    content_span,
    encode_head,
    encode_varint,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

THRESHOLD: Final = 1 << 16
# runtimes map external data, and a mapping begins at a page
ALIGNMENT: Final = 4096
# key of the metadata that tells the SHA-256 of the model before anything was moved out of it
SOURCE_DIGEST: Final = "sealcar.source_sha256"
_MESSAGE: Final = {schema.MODEL_GRAPH: Kind.BYTES}

Piece: TypeAlias = bytes | memoryview


@dataclass(frozen=True)
class Externalised:
    """A model in two parts.

    The pieces are views of the buffer that was given, which must stay alive and unchanged as long
    as they do.

    Attributes:
        model: the pieces of the rewritten model, in order.
        data: the pieces of the external file, in order; none if no initializer was moved.
        model_size: sum of the model's pieces.
        data_size: sum of the file's pieces.
        moved: how many initializers.
    """

    model: tuple[Piece, ...]
    data: tuple[Piece, ...]
    model_size: int
    data_size: int
    moved: int


def externalise(data: Buffer, *, location: str, threshold: int = THRESHOLD) -> Externalised:
    """Move inline initializers of the main graph whose raw data has at least `threshold` bytes.

    The model must have passed `scan`. If anything moves, its metadata tells what it was made of:
    SOURCE_DIGEST, in hexadecimal digits.

    Raises:
        InvalidPackageError: malformed.
    """
    view = memoryview(data).cast("B")
    if len(view) > MAX_MODEL:
        raise InvalidPackageError(f"the model has {len(view)} bytes, more than {MAX_MODEL}")
    rewriting = _Rewriting(view, location, threshold)
    model = rewriting.model()
    return Externalised(
        tuple(model),
        tuple(rewriting.data),
        sum(map(len, model)),
        rewriting.data_size,
        rewriting.moved,
    )


class _Rewriting:
    def __init__(self, view: memoryview, location: str, threshold: int) -> None:
        self._view = view
        self._reader = WireReader(view)
        self._location = location
        self._threshold = threshold
        self.data: list[Piece] = []
        self.data_size = 0
        self.moved = 0

    def model(self) -> list[Piece]:
        whole = Span(0, len(self._view))
        graph = self._reader.read(whole, _MESSAGE, "model").span(schema.MODEL_GRAPH)
        if graph is None:
            raise InvalidPackageError("not an ONNX model: it has no graph")
        out: list[Piece] = []
        for number, field, content in self._fields(whole):
            if number == schema.MODEL_GRAPH:
                self._nest(out, number, self._graph(content))
            elif number != schema.MODEL_METADATA or not self._is_digest(content):
                self._copy(out, field)
        if not self.moved:
            return [self._view]
        out.append(_entry(schema.MODEL_METADATA, SOURCE_DIGEST, self._digest()))
        return out

    def _is_digest(self, span: Span) -> bool:
        """Tell whether this entry is that of an earlier rewriting, whose place is taken."""
        found = self._reader.read(span, schema.ENTRY, "metadata_props")
        return found.equals(schema.ENTRY_KEY, SOURCE_DIGEST.encode())

    def _digest(self) -> str:
        import hashlib  # noqa: PLC0415  (whoever loads a model needs none)

        return hashlib.sha256(self._view).hexdigest()

    def _graph(self, span: Span) -> list[Piece]:
        out: list[Piece] = []
        for number, field, content in self._fields(span):
            if number == schema.GRAPH_INITIALIZERS and content.size >= self._threshold:
                self._initializer(out, field, content)
            else:
                self._copy(out, field)
        return out

    def _initializer(self, out: list[Piece], field: Span, content: Span) -> None:
        found = self._reader.read(content, schema.TENSOR, "graph.initializer")
        raw = found.span(schema.TENSOR_RAW)
        movable = raw is not None and raw.size >= self._threshold
        if raw is None or not movable or found.integer(schema.TENSOR_TYPE) == STRING:
            self._copy(out, field)
            return
        tensor: list[Piece] = []
        for number, inner, _ in self._fields(content):
            if number not in (schema.TENSOR_RAW, schema.TENSOR_LOCATION):
                self._copy(tensor, inner)
        tensor.append(self._reference(raw))
        self._nest(out, schema.GRAPH_INITIALIZERS, tensor)

    def _reference(self, raw: Span) -> bytes:
        """Append the data to the file, and return the fields that refer to it."""
        gap = -self.data_size % ALIGNMENT
        if gap:
            self.data.append(bytes(gap))
        offset = self.data_size + gap
        self.data.append(self._view[raw.start : raw.end])
        self.data_size = offset + raw.size
        self.moved += 1
        keys = {"location": self._location, "offset": str(offset), "length": str(raw.size)}
        fields = [_entry(schema.TENSOR_EXTERNAL, key, value) for key, value in keys.items()]
        external = encode_varint(schema.TENSOR_LOCATION << 3 | VARINT) + b"\x01"
        return b"".join(fields) + external

    def _fields(self, span: Span) -> Iterator[tuple[int, Span, Span]]:
        """Yield each field's number, the span of all of it, and that of its content."""
        at, end = span
        while at < end:
            start = at
            tag, at = varint(self._view, at, end, "model")
            if tag & 7 == VARINT:
                content = Span(at, varint(self._view, at, end, "model")[1])
            else:
                content = content_span(self._view, at, end, tag & 7, "model")
            at = content.end
            yield tag >> 3, Span(start, at), content

    def _copy(self, out: list[Piece], span: Span) -> None:
        out.append(self._view[span.start : span.end])

    @staticmethod
    def _nest(out: list[Piece], number: int, pieces: list[Piece]) -> None:
        out.append(encode_head(number, sum(map(len, pieces))))
        out.extend(pieces)


def _entry(number: int, key: str, value: str) -> bytes:
    """Return a field that holds a key and a value."""
    pair = _string(schema.ENTRY_KEY, key.encode()) + _string(schema.ENTRY_VALUE, value.encode())
    return _string(number, pair)


def _string(number: int, value: bytes) -> bytes:
    return encode_head(number, len(value)) + value
