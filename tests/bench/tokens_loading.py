"""Loaders that make a language model of onnxruntime-genai, which stands in for a session."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bench.tokens_model import MODEL, SETTINGS

from sealcar.benching import scratch
from sealcar.client import connect

if TYPE_CHECKING:
    from sealcar.benching.clocks import Clock
    from sealcar.benching.jobs import Job
    from sealcar.ort.runtime import SessionOptions

PLAIN: Final = "bench.tokens_loading:plain"
SEALED: Final = "bench.tokens_loading:sealed"
TMPFS: Final = "bench.tokens_loading:tmpfs"
# of a job's extra: where the package is installed; it comes after all that is found elsewhere
SITE: Final = "site"
_PROMPT: Final = ((1, 5, 7),)
_MOST: Final = 16


class Generating:
    """A language model that says one token for the first inference."""

    def __init__(self, genai: Any, settings: Any) -> None:  # noqa: ANN401  (publishes no types)
        self._genai = genai
        self._model = genai.Model(settings)

    def get_inputs(self) -> list[Any]:
        """Return none: the prompt is always the same."""
        return []

    def get_providers(self) -> list[str]:
        return [f"CPU, onnxruntime-genai {self._genai.__version__}"]

    def run(self, _outputs: None, _feed: object) -> list[Any]:
        parameters = self._genai.GeneratorParams(self._model)
        parameters.set_search_options(do_sample=False, max_length=_MOST)
        generator = self._genai.Generator(self._model, parameters)
        generator.append_tokens(np.array(_PROMPT, np.int32))
        generator.generate_next_token()
        return [np.asarray(generator.get_sequence(0))]


def _genai(job: Job) -> Any:  # noqa: ANN401  (publishes no types)
    if job.extra[SITE] not in sys.path:
        sys.path.append(job.extra[SITE])
    return import_module("onnxruntime_genai")


def plain(job: Job, _options: SessionOptions, clock: Clock, /) -> Generating:
    """Make it from the directory that it lies in."""
    genai = _genai(job)
    clock.start()  # as for a session, imports aren't counted
    return Generating(genai, genai.Config(str(Path(job.model).parent)))


def sealed(job: Job, _options: SessionOptions, clock: Clock, /) -> Generating:
    """Have the model's bytes from the daemon, and its settings from the directory."""
    genai = _genai(job)
    clock.start()
    settings = genai.Config(str(Path(job.model).parent))
    with connect(job.socket) as client:
        data = client.scope(*job.address).read(MODEL)
        clock.arrived(len(data))
        settings.add_model_data(MODEL, data)
        return Generating(genai, settings)


def tmpfs(job: Job, _options: SessionOptions, clock: Clock, /) -> Generating:
    """Have the model in a file in memory beside its settings, and make it from there."""
    genai = _genai(job)
    clock.start()
    with connect(job.socket) as client, scratch.folder() as folder:
        (Path(folder) / MODEL).write_bytes(client.scope(*job.address).read(MODEL))
        shutil.copy(Path(job.model).with_name(SETTINGS), folder)
        return Generating(genai, genai.Config(folder))
