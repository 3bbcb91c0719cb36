"""The ways to a session that are compared. A loader is told a job, and returns a session.

All that they need is imported here, before a load begins: what that takes is told apart.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sealcar.benching import scratch
from sealcar.client import connect
from sealcar.ort import configuration, packing, placing, runtime
from sealcar.ort import options as tables
from sealcar.ort.loading import load
from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from sealcar.benching.clocks import Clock
    from sealcar.benching.jobs import Job
    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.transfer.reading import Scope


class Loader(Protocol):
    """Makes the session of a job."""

    def __call__(self, job: Job, options: SessionOptions, clock: Clock, /) -> Session:
        """Return it; whatever it needs lives as long as the session."""


def providers(job: Job) -> list[str] | None:
    """Return the providers of a session: a plugin's stand in its options."""
    return None if job.plugin else ["CPUExecutionProvider"]


def plain(job: Job, options: SessionOptions, _clock: Clock, /) -> Session:
    """Load the file as anybody would."""
    return _of_file(job.model, job, options)


def tuned(job: Job, options: SessionOptions, _clock: Clock, /) -> Session:
    """Load the file as anybody could who sets the options that a sealed load sets by itself."""
    packing.prefer_parallel(options)
    if job.model.endswith(placing.SUFFIX):
        placing.prefer(options)
    return _of_file(job.model, job, options)


def sealed(job: Job, options: SessionOptions, _clock: Clock, /) -> Session:
    """Connect, and load the sealed variant."""
    package, component, variant = job.address
    return load(
        connect(job.socket or None),
        package,
        component=component,
        variant=variant,
        session_options=options,
        providers=providers(job),
        initializers=job.initializers,
    )


def tmpfs(job: Job, options: SessionOptions, clock: Clock, /) -> Session:
    """Have all payloads decrypted into files in memory, and load these as anybody would."""
    with connect(job.socket or None) as client, scratch.folder() as folder:
        scope = client.scope(*job.address)
        for payload in scope.payloads:
            path = Path(folder) / payload.name
            path.parent.mkdir(parents=True, exist_ok=True)
            _decrypt(scope, payload.name, path)
        clock.not_yet()
        model = next(one.name for one in scope.payloads if one.kind == "model")
        return _of_file(str(Path(folder) / model), job, options)


def _decrypt(scope: Scope, name: str, path: Path) -> None:
    with scope.reader(name) as reader, path.open("x+b") as file:
        file.truncate(reader.size)
        if not reader.size:
            return
        with (
            mmap.mmap(file.fileno(), reader.size) as memory,
            Exported(memory, writable=True) as target,
        ):
            reader.read_into(target.address, reader.size)


def _of_file(path: str, job: Job, options: SessionOptions) -> Session:
    ep = str(job.extra.get("ep", ""))
    of_package = tables.of_package(ep, job.session_options, job.provider_options)
    configuration.apply(options, of_package, {})
    make = runtime.onnxruntime().InferenceSession
    return make(path, options, providers=providers(job), enable_fallback=0)
