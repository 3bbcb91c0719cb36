"""The program of one load, in a process of its own.

    python -m sealcar.benching.loading PARENT

reads a job, one line, gets ready, answers with a line, waits for another line, loads, answers with
what it saw, and ends when standard input does. Answers are JSON objects, one a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sealcar.benching import feeding, machine, touching
from sealcar.benching.clocks import Clock
from sealcar.benching.jobs import INFERENCE, PARSED, PAYLOADS, READY, SEALED, TMPFS, Job, Told
from sealcar.demo.leash import answers_only, hold
from sealcar.errors import InternalError, RuntimeSupportError, SealcarError

if TYPE_CHECKING:
    from sealcar.benching.loaders import Loader
    from sealcar.ort.runtime import Session, SessionOptions

_FATAL = 4
_IN_THE_MODEL = "nothing lies beside the model"


class Load:
    """One job: `prepare` does what every process does once, `run` what is measured.

    Args:
        job: what to load.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._clock = Clock()
        self._unseen: dict[str, str] = {}
        self._options, self._runtime = _prepared(job)
        self._loader: Loader = _found(job.loader)
        if job.loader in (SEALED, TMPFS):
            self._clock.watch_client()
        self._clock.watch_runtime(import_module("onnxruntime.capi.onnxruntime_pybind11_state"))

    def run(self) -> Told:
        """Load, touch what is only mapped, and let the session answer once.

        Raises:
            SealcarError: it can't be loaded.
            Exception: the runtime's own: the same.
        """
        clock = self._clock
        clock.start()
        session = self._loader(self._job, self._options, clock)
        clock.reached(READY)
        untouched = self._touch()
        answer = self._infer(session)
        runtime = self._runtime | machine.session_facts(session)
        traffic = clock.traffic()
        return Told(clock.begun, clock.moments, self._unseen, untouched, traffic, answer, runtime)

    def _touch(self) -> int:
        untouched = 0
        for address, size in touching.mapped(self._job.files):
            touching.touch(address, size)
            untouched += size
        moments = self._clock.moments
        if untouched:
            self._clock.mapped = max(self._clock.mapped, untouched)
            self._clock.reached(PAYLOADS)
        elif not self._job.beside and PARSED in moments:
            moments[PAYLOADS] = moments[PARSED]
            self._unseen[PAYLOADS] = _IN_THE_MODEL
        return untouched

    def _infer(self, session: Session) -> tuple[float, ...]:
        try:
            feed = feeding.feed(session, self._job.dims, self._job.feed)
            outputs = session.run(None, feed)
        except Exception as error:  # noqa: BLE001  (the runtime's are many; a load counts without)
            self._unseen[INFERENCE] = str(error).splitlines()[0]
            return ()
        self._clock.reached(INFERENCE)
        return feeding.condensed(outputs)


def _found(name: str) -> Loader:
    module, _, function = name.partition(":")
    loader: Loader = getattr(import_module(module), function)
    return loader


def _prepared(job: Job) -> tuple[SessionOptions, dict[str, str]]:
    """Import the runtime, register the plugin, and make the options of the session."""
    from sealcar import ort  # noqa: PLC0415  (before onnxruntime: it keeps the event database off)
    from sealcar.ort import runtime  # noqa: PLC0415  (the same)

    module = runtime.onnxruntime()
    options = module.SessionOptions()
    options.intra_op_num_threads = job.threads
    if not job.plugin:
        return options, machine.runtime_facts(options, "CPUExecutionProvider", module.__version__)
    module.set_default_logger_severity(_FATAL)
    devices = ort.register_ep(job.plugin)
    if not devices:
        raise RuntimeSupportError(f"plugin {job.plugin} finds no device that it can run on")
    options.add_provider_for_devices(devices[:1], dict(job.plugin_options))
    facts = machine.runtime_facts(options, devices[0].ep_name, machine.version_of(job.plugin))
    return options, facts


def main(parent: str) -> int:
    """Do one job and return the exit code."""
    # unwinds: files in memory hold plaintext
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    hold(int(parent))
    answers = answers_only()

    def say(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")

    try:
        load = Load(Job.parse(sys.stdin.readline()))
        say({"ready": os.getpid()})
        if not sys.stdin.readline():
            return 0
        say(asdict(load.run()))
    except Exception as error:  # noqa: BLE001  (the runtime's are many; whoever started us sees)
        about = error if isinstance(error, SealcarError) else _runtimes(error)
        say({"error": {"kind": type(about).__name__, "message": str(about)}})
        return about.exit_code
    # whoever started us looks at our memory first
    sys.stdin.readline()
    return 0


def _runtimes(error: Exception) -> SealcarError:
    if type(error).__module__.startswith("onnxruntime"):
        return RuntimeSupportError(f"ONNX Runtime: {str(error).splitlines()[0]}")
    return InternalError(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    # sessions and plugins are taken down by the kernel: how long that takes isn't measured
    os._exit(code)
