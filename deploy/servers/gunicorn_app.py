"""gunicorn with --preload: the parent loads the model, its children of fork answer with it.

gunicorn --preload --workers 4 gunicorn_app:application

A session on the CPU provider without threads of its own survives fork. With an accelerator's
provider leave --preload away, and load in `post_fork` with initializers="shared".
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np

import sealcar
import sealcar.ort
from sealcar.ort import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _options() -> runtime.SessionOptions:
    options = runtime.onnxruntime().SessionOptions()
    # threads don't come along with fork
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


with sealcar.connect() as client:
    SESSION = sealcar.ort.load(
        client,
        os.environ["MODEL"],
        session_options=_options(),
        providers=["CPUExecutionProvider"],
        initializers="shared",
    )


def application(
    environ: dict[str, object], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """Answer one request: a JSON list of numbers."""
    body = environ["wsgi.input"].read(int(str(environ["CONTENT_LENGTH"])))  # type: ignore[attr-defined]  # WSGI's
    (y,) = SESSION.run(["y"], {"x": np.array([json.loads(body)], np.float32)})
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"y": y[0].tolist(), "pid": os.getpid()}).encode()]
