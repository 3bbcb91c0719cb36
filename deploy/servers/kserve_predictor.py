"""KServe: a custom predictor; `kserve.ModelServer().start([Predictor("ocr", "ocr")])` serves it.

The daemon is a sidecar of the pod: see deploy/kubernetes/base.
"""

from __future__ import annotations

import kserve
import numpy as np

import sealcar
import sealcar.ort


class Predictor(kserve.Model):  # type: ignore[misc]  # kserve's types, if any, are its own matter
    """The V1 protocol over a sealed model: {"instances": rows} to {"predictions": rows}."""

    def __init__(self, name: str, package: str) -> None:
        super().__init__(name)
        self._package = package

    def load(self) -> bool:
        """Load the model; the pod isn't ready before."""
        with sealcar.connect() as client:
            self._session = sealcar.ort.load(
                client, self._package, providers=["CPUExecutionProvider"], initializers="shared"
            )
        self.ready = True
        return self.ready

    def predict(self, payload: dict[str, object], headers: object = None) -> dict[str, object]:
        """Answer one request."""
        del headers
        rows = np.array(payload["instances"], np.float32)
        (y,) = self._session.run(["y"], {"x": rows})
        return {"predictions": y.tolist()}
