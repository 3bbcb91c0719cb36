"""A compiled model is published only if it names exactly what was written."""

from __future__ import annotations

import pytest

from sealcar.errors import RuntimeSupportError
from sealcar.onnxscan import EpContextNode, External, ModelScan, Tensor
from sealcar.ort.compiled import check_complete


def node(blob: str | None) -> EpContextNode:
    cache = None if blob is None else blob.encode()
    return EpContextNode("n", "graph.node[0]", embed_mode=blob is None, cache_context=cache)


def scan(*blobs: str | None, files: tuple[str, ...] = (), **metadata: str) -> ModelScan:
    tensors = tuple(Tensor("w", 1, (1,), "graph", external=External(file)) for file in files)
    return ModelScan(tensors, tuple(node(blob) for blob in blobs), metadata, len(blobs))


def test_what_fits_together_is_complete() -> None:
    check_complete(scan("a.bin", "a.bin", "b.bin"), {"a.bin", "b.bin"}, "")
    check_complete(scan("a.bin", files=("m.weights",)), {"a.bin"}, "m.weights")


def test_embedded_blobs_are_no_names() -> None:
    check_complete(scan(None, None), set(), "")


def test_a_model_of_which_nothing_was_compiled_is_refused() -> None:
    with pytest.raises(RuntimeSupportError, match="no node was compiled"):
        check_complete(scan(), set(), "")


def test_a_blob_that_was_never_written_is_named() -> None:
    with pytest.raises(RuntimeSupportError, match=r"names blob 'b\.bin', which wasn't written"):
        check_complete(scan("a.bin", "b.bin"), {"a.bin"}, "")


def test_a_blob_that_no_node_names_is_named() -> None:
    with pytest.raises(RuntimeSupportError, match=r"doesn't name blob 'b\.bin', which was written"):
        check_complete(scan("a.bin"), {"a.bin", "b.bin"}, "")


def test_blobs_written_beside_embedded_ones_are_refused() -> None:
    with pytest.raises(RuntimeSupportError, match="doesn't name blob"):
        check_complete(scan(None), {"a.bin"}, "")


def test_weights_that_lie_elsewhere_are_named() -> None:
    with pytest.raises(RuntimeSupportError, match=r"names file 'plain\.bin'"):
        check_complete(scan("a.bin", files=("plain.bin",)), {"a.bin"}, "")
    with pytest.raises(RuntimeSupportError, match=r"doesn't name file 'm\.weights'"):
        check_complete(scan("a.bin"), {"a.bin"}, "m.weights")


def test_a_weightless_model_is_refused_by_name() -> None:
    found = scan("a.bin", external_dependencies="ep_context_binary,source_model")
    with pytest.raises(RuntimeSupportError, match="weightless"):
        check_complete(found, {"a.bin"}, "")
