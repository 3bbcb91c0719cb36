"""A variant's model as it is read: its bytes, and all that it will ask for.

ONNX Runtime takes two forms. An ONNX model is scanned for every name in it. A model in ONNX
Runtime's own format (`.ort`) has its weights inside; it isn't scanned, so it may not be compiled
for a provider, whose blobs it could name.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar import onnxscan
from sealcar.errors import InvalidPackageError, RequestError
from sealcar.names import shown
from sealcar.ort import initializers, scopes, sources
from sealcar.transfer.memory import contains

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.onnxscan import EpContextNode, ModelScan, Tensor
    from sealcar.ort.sources import Source

# the operator's name stands in such a file as it is
_COMPILED: Final = b"EPContext"
# two decryptions take no longer than one and two copies, and no memory besides
_HELD_FROM: Final = 3


@dataclass(frozen=True)
class Model:
    """A model, every name in which has been found in the variant.

    Attributes:
        name: of its payload.
        data: as the runtime takes it.
        blobs: the payload of each name that a provider may ask for.
        repeated: those payloads that so many nodes name that they are better decrypted once.
        files: the payload of each external file.
        weights: the tensors that lie in those files.
    """

    name: str
    data: bytes = field(repr=False)
    blobs: Mapping[str, str] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[Tensor, ...] = ()


def read(source: Source) -> Model:
    """Read a variant's model, and find all that it refers to.

    Raises:
        InvalidPackageError: it refers to what isn't in the variant.
        NotFoundError: a plain package's file that doesn't exist.
        SealcarError: the model can't be read.
    """
    name = scopes.model_of(source)
    data = source.read(name)
    if onnxscan.is_ort_format(data):
        try:
            _check_alone(source, data)
        except InvalidPackageError as error:
            raise source.name.placed(error, "open", name) from None
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


def _check_alone(source: Source, data: bytes) -> None:
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
