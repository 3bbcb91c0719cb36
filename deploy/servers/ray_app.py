"""Ray Serve: `serve run ray_app:app`. Replicas are processes, and share the weights of one node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from ray import serve

import sealcar
import sealcar.ort

if TYPE_CHECKING:
    from starlette.requests import Request


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0.1})
class Model:
    """One replica."""

    def __init__(self) -> None:
        with sealcar.connect() as client:
            self._session = sealcar.ort.load(
                client,
                os.environ["MODEL"],
                providers=["CPUExecutionProvider"],
                initializers="shared",
            )

    async def __call__(self, request: Request) -> dict[str, object]:
        """Answer one request: a JSON list of numbers."""
        row = np.array([await request.json()], np.float32)
        (y,) = self._session.run(["y"], {"x": row})
        return {"y": y[0].tolist(), "pid": os.getpid()}


app = Model.bind()
