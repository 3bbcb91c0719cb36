"""KServe: a custom predictor, `python kserve_predictor.py --model_name ocr --workers 2`.

Workers share the weights. The daemon is a sidecar of the pod: see deploy/kubernetes/base.
"""

from __future__ import annotations

import argparse
import os

import kserve
import numpy as np
from kserve.utils.utils import get_predict_input, get_predict_response

import sealcar
import sealcar.ort


class Predictor(kserve.Model):  # type: ignore[misc]  # kserve's types, if any, are its own matter
    """Both of KServe's protocols over a sealed model with one input and one output."""

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

    # with --workers each is a process of spawn, which gets the predictor, and loads for itself
    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_session"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.load()

    def predict(
        self,
        payload: dict[str, object] | kserve.InferRequest,
        headers: object = None,
        response_headers: object = None,
    ) -> dict[str, object] | kserve.InferResponse:
        """Answer one request."""
        del headers, response_headers
        rows = np.asarray(get_predict_input(payload), np.float32)
        (y,) = self._session.run(["y"], {"x": rows})
        return get_predict_response(payload, y, self.name)


if __name__ == "__main__":
    # KServe's own options, and one that isn't among them
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("--package", default=os.environ.get("MODEL", "ocr"))
    chosen, _ = parser.parse_known_args()
    predictor = Predictor(chosen.model_name, chosen.package)
    predictor.load()
    kserve.ModelServer().start([predictor])
