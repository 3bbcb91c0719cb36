"""Triton's Python backend: a sealed model behind Triton's own protocols, batching and metrics."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

import sealcar
import sealcar.ort


class TritonPythonModel:
    """One instance, in a process of its own: all instances share the weights of one model."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model; what fails is in Triton's log, and the model isn't ready."""
        parameters = json.loads(args["model_config"])["parameters"]
        named = {key: value["string_value"] for key, value in parameters.items()}
        self._client = sealcar.connect()
        self._session: Any = sealcar.ort.load(
            self._client,
            named["package"],
            component=named["component"],
            variant=named.get("variant"),
            initializers="shared",
        )

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request."""
        return [self._answer(request) for request in requests]

    def finalize(self) -> None:
        """Give memory and connections back."""
        del self._session
        self._client.close()

    def _answer(self, request: Any) -> Any:  # noqa: ANN401  (Triton's own types)
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        (y,) = self._session.run(["y"], {"x": x})
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", y)])
