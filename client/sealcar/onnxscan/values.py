"""What a scan finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.onnxscan.wire import Span

STRING: Final = 8
# bits of one element, by TensorProto.DataType; strings have no fixed size
_BITS: Final = MappingProxyType(
    {
        **dict.fromkeys((1, 6, 12), 32),
        **dict.fromkeys((2, 3, 9, 17, 18, 19, 20, 24), 8),
        **dict.fromkeys((4, 5, 10, 16), 16),
        **dict.fromkeys((7, 11, 13, 14), 64),
        15: 128,
        **dict.fromkeys((21, 22, 23), 4),
        **dict.fromkeys((25, 26), 2),
        **dict.fromkeys((27, 28), 6),
    }
)


@dataclass(frozen=True, slots=True)
class External:
    """A tensor's reference to data in another file.

    Attributes:
        location: the file, as the model names it: hostile until checked.
        offset: first byte.
        length: bytes, or None where the model leaves it open.
        others: further keys and their values, such as `checksum`.
    """

    location: str
    offset: int = 0
    length: int | None = None
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One dense tensor, or one half of a sparse one.

    Attributes:
        name: may be empty, for instance in attributes.
        data_type: as TensorProto.DataType numbers them.
        dims: its shape.
        path: where in the model it stands, for messages.
        initializer: it is a dense initializer of a graph that is run (not of an attribute, function
            or training).
        sparse: it is the values or indices of a sparse tensor.
        inline: where its raw bytes lie in the model, if they do.
        external: where they lie instead.
    """

    name: str
    data_type: int
    dims: tuple[int, ...]
    path: str
    initializer: bool = False
    sparse: bool = False
    inline: Span | None = None
    external: External | None = None

    @property
    def byte_size(self) -> int | None:
        """Bytes its data must have; None for strings and types that aren't known."""
        bits = _BITS.get(self.data_type)
        if bits is None:
            return None
        for dim in self.dims:
            bits *= dim
        return (bits + 7) // 8


@dataclass(frozen=True, slots=True)
class EpContextNode:
    """One EPContext node: a compiled part of a model.

    Attributes:
        name: of the node.
        path: where in the model it stands.
        source: which execution provider made it.
        ep_sdk_version: of the provider's SDK.
        partition_name: which part of the graph it stands for.
        main_context: it has the blob; False: it shares the one of another node.
        embed_mode: the blob is inside the model; None where the model doesn't say.
        cache_context: the blob's name with `embed_mode` False; otherwise None, for it would be the
            blob.
        cache_span: where the attribute's bytes lie in the model, if the node has it.
        model_filename: a further file that some providers read; empty where there is none.
    """

    name: str
    path: str
    source: str = ""
    ep_sdk_version: str = ""
    partition_name: str = ""
    main_context: bool = True
    embed_mode: bool | None = None
    cache_context: bytes | None = None
    cache_span: Span | None = None
    model_filename: str = ""


@dataclass(frozen=True, slots=True)
class ModelScan:
    """Everything in a model that matters to whoever stores it.

    Attributes:
        tensors: all of them, wherever they stand, in the order found.
        ep_contexts: all compiled parts.
        metadata: the model's own key-value pairs.
        node_count: nodes in all graphs and functions.
    """

    tensors: tuple[Tensor, ...]
    ep_contexts: tuple[EpContextNode, ...]
    metadata: Mapping[str, str]
    node_count: int

    @property
    def external(self) -> tuple[Tensor, ...]:
        """The tensors whose data is in another file."""
        return tuple(tensor for tensor in self.tensors if tensor.external is not None)
