"""onnxruntime-genai: a sealed language model out of memory; settings and tokenizer are files.

It makes its own sessions and sets no callbacks, so the weights have to be in the model itself:
sealcar import --keep-inline model.onnx --name chat
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# before whatever loads ONNX Runtime: keeps its event database off the disk
import sealcar.ort  # noqa: F401

# isort: split
import onnxruntime_genai as genai

if TYPE_CHECKING:
    from sealcar.client import Client


def load(client: Client, package: str, settings: str) -> genai.Model:
    """Return the model of a package; `settings` is a folder with genai_config.json."""
    config = genai.Config(settings)
    scope = client.scope(package)
    (name,) = (each.name for each in scope.payloads if each.kind == "model")
    data = scope.read(name)
    # by the "filename" of genai_config.json; the bytes have to stay until the model is made
    config.add_model_data(name, data)
    return genai.Model(config)
