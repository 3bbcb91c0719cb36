"""Optimum: one of its ORTModels around a sealed session; configuration and tokenizer are files.

It runs on the providers that the session was loaded with: `.to(...)` with others is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# before whatever loads ONNX Runtime: keeps its event database off the disk
import sealcar.ort

# isort: split
from optimum.onnxruntime import ORTModelForSequenceClassification
from transformers import AutoConfig

if TYPE_CHECKING:
    from sealcar.client import Client


def load(client: Client, package: str, settings: str) -> ORTModelForSequenceClassification:
    """Return the model of a package; `settings` is a folder with config.json."""
    session = sealcar.ort.load(client, package, providers=["CPUExecutionProvider"])
    # Optimum asks every session for the path of its model, and one from memory has none
    session._model_path = ""  # noqa: SLF001
    return ORTModelForSequenceClassification(
        config=AutoConfig.from_pretrained(settings), session=session
    )
