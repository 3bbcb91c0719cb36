"""FastAPI: every worker process loads the model when it starts; the weights lie in memory once.

uvicorn --factory fastapi_app:make --workers 4
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import fastapi
import numpy as np

import sealcar
import sealcar.ort

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def _model(app: fastapi.FastAPI) -> AsyncIterator[None]:
    with sealcar.connect() as client:
        app.state.session = sealcar.ort.load(
            client, os.environ["MODEL"], providers=["CPUExecutionProvider"], initializers="shared"
        )
    yield


def make() -> fastapi.FastAPI:
    """Return the application."""
    app = fastapi.FastAPI(lifespan=_model)

    # not async: a worker's threads run it, so that a long inference holds no other request up
    @app.post("/infer")
    def infer(x: list[float]) -> dict[str, object]:
        row = np.array([x], np.float32)
        (y,) = app.state.session.run(["y"], {"x": row})
        return {"y": y[0].tolist(), "pid": os.getpid()}

    return app
