"""The models that loads are measured with, made for the run: one of each form."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import onnx
from onnx.external_data_helper import convert_model_to_external_data
from support import blobs, eps, models

from sealcar.benching.trial import Wish
from sealcar.ort import runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MIB: Final = 1 << 20
_PLUGIN: Final = "onnxruntime_qnn"


@dataclass(frozen=True)
class Form:
    """A form in which models come.

    Attributes:
        word: of its part's name.
        name: in words.
        make: writes a model of about so many MiB into a folder, and returns its path.
        most: MiB that are worth it: a file of more takes long to make and says the same.
        wish: what its loads need.
        missing: why it can't be had here.
    """

    word: str
    name: str
    make: Callable[[Path, int], Path]
    most: int
    wish: Wish = field(default_factory=Wish)
    missing: str = ""


def external(folder: Path, mebibytes: int) -> Path:
    """An ONNX model with its weights in a file beside it."""
    model = onnx.load_from_string(models.big_model(mebibytes))
    convert_model_to_external_data(model, location="weights.bin", size_threshold=_MIB // 64)
    path = folder / "external.onnx"
    onnx.save(model, path)
    return path


def inline(folder: Path, mebibytes: int) -> Path:
    """An ONNX model with its weights inside."""
    path = folder / "inline.onnx"
    path.write_bytes(models.big_model(mebibytes))
    return path


def ort_format(folder: Path, mebibytes: int) -> Path:
    """The same in ONNX Runtime's own format."""
    path = folder / "model.ort"
    options = eps.quiet_options()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    make = runtime.onnxruntime().InferenceSession
    make(models.big_model(mebibytes), options, providers=["CPUExecutionProvider"])
    return path


def compiled(folder: Path, mebibytes: int) -> Path:
    """A model that a provider has compiled, with its blob beside it."""
    store = blobs.compiled("qnn", models.big_model(mebibytes))
    path = folder / "compiled.onnx"
    path.write_bytes(bytes(store.model))
    for name, blob in store.blobs.items():
        (folder / name).write_bytes(blob)
    return path


def forms() -> tuple[Form, ...]:
    """Return all forms; a plugin that isn't installed leaves one out."""
    missing = "" if find_spec(_PLUGIN) else f"{_PLUGIN} isn't installed: no wheel for this machine"
    wish = Wish(_PLUGIN, eps.SETTINGS["qnn"])
    return (
        Form("onnx", "ONNX, weights beside it", external, 256),
        Form("inline", "ONNX, weights inside", inline, 256),
        Form("ort", "ORT format", ort_format, 256),
        Form(
            "compiled",
            "compiled for QNN (HTP simulator), blob beside it",
            compiled,
            64,
            wish,
            missing,
        ),
    )
