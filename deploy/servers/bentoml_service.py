"""BentoML: `bentoml serve bentoml_service:Ocr`. Workers are processes, and share the weights."""

from __future__ import annotations

import os

import bentoml
import numpy as np

import sealcar
import sealcar.ort


@bentoml.service(workers=2)
class Ocr:
    """One worker; its constructor runs in the worker's own process."""

    def __init__(self) -> None:
        with sealcar.connect() as client:
            self._session = sealcar.ort.load(
                client,
                os.environ["MODEL"],
                providers=["CPUExecutionProvider"],
                initializers="shared",
            )

    @bentoml.api
    def infer(self, x: list[float]) -> dict[str, object]:
        """Answer one request: {"x": numbers}."""
        (y,) = self._session.run(["y"], {"x": np.array([x], np.float32)})
        return {"y": y[0].tolist(), "pid": os.getpid()}
