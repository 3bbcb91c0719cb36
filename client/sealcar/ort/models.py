"""A variant's model as it is read: its bytes, and all that it will ask for.

ONNX Runtime takes two forms. An ONNX model is scanned for every name in it. A model in ONNX
Runtime's own format (`.ort`) has its weights inside; it isn't scanned, so it may not be compiled
for a provider, whose blobs it could name.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar import onnxscan
from sealcar.closing import Closing
from sealcar.errors import InvalidPackageError, RequestError
from sealcar.names import shown
from sealcar.ort import initializers, placing, scopes, sources
from sealcar.ort.sources import SealedSource
from sealcar.transfer.memory import contains

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Buffer

    from sealcar.onnxscan import EpContextNode, ModelScan, Tensor
    from sealcar.ort.sources import Source
    from sealcar.transfer.named import NamedMemory

# the operator's name stands in such a file as it is
_COMPILED: Final = b"EPContext"
# two decryptions take no longer than one and two copies, and no memory besides
_HELD_FROM: Final = 3


@dataclass(frozen=True)
class Model(Closing):
    """A model, every name in which has been found in the variant.

    Attributes:
        name: of its payload.
        data: as the runtime takes it; empty with `place`.
        blobs: the payload of each name that a provider may ask for.
        repeated: those payloads that so many nodes name that they are better decrypted once.
        files: the payload of each external file.
        weights: the tensors that lie in those files.
        place: where a model in ORT format lies that the runtime is to map.
    """

    name: str
    data: bytes = field(repr=False)
    blobs: Mapping[str, str] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[Tensor, ...] = ()
    place: NamedMemory | None = None

    def close(self) -> None:
        """Let its place go; sessions keep what they map."""
        if self.place is not None:
            self.place.close()


def read(source: Source, *, mapped: Callable[[], bool] = lambda: False) -> Model:
    """Read a variant's model, and find all that it refers to.

    Args:
        source: the variant.
        mapped: tells whether a large model in ORT format is to be one that the runtime maps.

    Raises:
        InvalidPackageError: it refers to what isn't in the variant.
        NotFoundError: a plain package's file that doesn't exist.
        SealcarError: the model can't be read.
    """
    name = scopes.model_of(source)
    place = _place(source, name, mapped)
    if place is None:
        return _found(source, name, source.read(name))
    with ExitStack() as stack:
        stack.enter_context(place)
        with closing(place.mapped()) as memory, memory.view() as view:
            if not _is_alone(source, name, view):
                return _found(source, name, place.read())
        stack.pop_all()
    return Model(name, b"", place=place)


def _place(source: Source, name: str, mapped: Callable[[], bool]) -> NamedMemory | None:
    # the runtime, too, takes a file's name for what is in it
    if not name.endswith(placing.SUFFIX) or not isinstance(source, SealedSource):
        return None
    return source.named(name) if source.size(name) >= placing.LEAST and mapped() else None


def _found(source: Source, name: str, data: bytes) -> Model:
    if _is_alone(source, name, data):
        return Model(name, data)
    found = onnxscan.scan(data)
    blobs = _blobs(found, source, name)
    return Model(
        name,
        data,
        blobs,
        _repeated(found, blobs),
        initializers.resolve(found, source, name),
        found.external,
    )


def _is_alone(source: Source, name: str, data: Buffer) -> bool:
    """Tell whether a model is in ORT format, and then check that it has nothing beside it."""
    if not onnxscan.is_ort_format(data):
        return False
    try:
        _check_alone(source, data)
    except InvalidPackageError as error:
        raise source.name.placed(error, "open", name) from None
    return True


def _check_alone(source: Source, data: Buffer) -> None:
    given = scopes.options_in(source, scopes.SESSION_OPTIONS)
    for key in (scopes.WEIGHTS_FOLDER, scopes.CONTEXT_FILE):
        if given.get(key):
            raise InvalidPackageError(f"a model in ORT format has no files beside it: {key}")
    if contains(data, _COMPILED):
        raise InvalidPackageError(
            "a compiled model must be an ONNX file: in ORT format it can't be seen which blobs it "
            "reads"
        )


def _blobs(found: ModelScan, source: Source, model: str) -> dict[str, str]:
    """Return the payload of each blob that EPContext nodes name: a provider would try the disk."""
    if scopes.weightless(found):
        refused = InvalidPackageError("the model is weightless: it reads its weights from a file")
        raise source.name.placed(refused, "open", model)
    blobs: dict[str, str] = {}
    for node in found.ep_contexts:
        try:
            _add_blob(blobs, node, source, model)
        except RequestError as error:
            text = f"EPContext node {shown(node.name)}: {error.message}"
            raise source.name.placed(type(error)(text), "open", model) from error
    return blobs


def _repeated(found: ModelScan, blobs: Mapping[str, str]) -> frozenset[str]:
    named = Counter(
        blobs[node.cache_context.decode()]
        for node in found.ep_contexts
        if node.cache_context is not None
    )
    return frozenset(payload for payload, times in named.items() if times >= _HELD_FROM)


def _add_blob(blobs: dict[str, str], node: EpContextNode, source: Source, model: str) -> None:
    if node.cache_context is None:
        return
    try:
        name = node.cache_context.decode()
    except UnicodeDecodeError:
        raise InvalidPackageError(f"blob {shown(node.cache_context)} isn't UTF-8") from None
    if name in blobs:
        return
    try:
        payload = source.beside(scopes.blobs_folder(source, model), name, sources.BLOB)
    except RequestError as error:
        raise type(error)(f"blob {shown(name)}: {error.message}") from error
    # one provider asks by the whole name, another by its last part
    for asked in (name, posixpath.basename(name)):
        if blobs.setdefault(asked, payload) != payload:
            raise InvalidPackageError(f"blob {shown(name)} can't be told from another")
