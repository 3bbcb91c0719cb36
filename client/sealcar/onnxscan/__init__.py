"""A scanner of ONNX models that reads the wire format alone.

It finds what matters to whoever stores or serves a model: which other files it refers to and which
parts of it are compiled. It knows field numbers only, never builds message objects and never copies
tensor data, so that a model of any size can be looked at in a mapping. Input is hostile: every
finding is either a value or an `InvalidPackageError`.
"""

from sealcar.onnxscan.externalising import SOURCE_DIGEST, Externalised, externalise
from sealcar.onnxscan.ortformat import is_ort_format
from sealcar.onnxscan.scanner import scan
from sealcar.onnxscan.values import EpContextNode, External, ModelScan, Tensor
from sealcar.onnxscan.wire import Span

__all__ = [
    "SOURCE_DIGEST",
    "EpContextNode",
    "External",
    "Externalised",
    "ModelScan",
    "Span",
    "Tensor",
    "externalise",
    "is_ort_format",
    "scan",
]
