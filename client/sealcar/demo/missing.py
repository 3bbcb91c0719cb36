"""What the demonstration needs beside sealcar, and where it lies."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sealcar.errors import RuntimeSupportError


def check() -> None:
    """Make sure that everything the demonstration imports is there.

    Raises:
        RuntimeSupportError: something isn't; the message has the remedy.
    """
    for module in ("numpy", "onnx", "onnxruntime", "magika", "cryptography", "structlog"):
        home_of(module)


def home_of(module: str) -> Path:
    """Return the folder of a package without importing it.

    Raises:
        RuntimeSupportError: it isn't installed; the message has the remedy.
    """
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeSupportError(
            f"the demo needs {module}, which isn't installed; remedy: pip install 'sealcar[demo]'"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def model_of_magika() -> Path:
    """Return the ONNX model that the `magika` package ships.

    Raises:
        RuntimeSupportError: there is none.
    """
    models = sorted(home_of("magika").glob("models/standard_*/model.onnx"))
    if not models:
        raise RuntimeSupportError("the installed magika has no model; the demo needs magika>=1.0.1")
    return models[-1]
