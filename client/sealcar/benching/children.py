"""The processes that load, as whoever measures them sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any, Self

from sealcar import errors
from sealcar.benching import scratch
from sealcar.benching.jobs import Told

if TYPE_CHECKING:
    from types import TracebackType

    from sealcar.benching.jobs import Job

PATIENCE = 10.0
_WORDS = 2000


class Child:
    """One process that loads one job. Leaving the `with` block ends it, by force if need be.

    Args:
        job: what it loads.
        path: of modules that only it needs, for PYTHONPATH.
    """

    def __init__(self, job: Job, path: str = "") -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SEALCAR")}
        if path:
            kept["PYTHONPATH"] = path
        self._talk: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self._process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", "sealcar.benching.loading", str(os.getpid())],
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._talk,
            text=True,
            start_new_session=True,
        )
        self._say(job.text())

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def prepare(self) -> None:
        """Wait until everything is imported.

        Raises:
            SealcarError: why it can't.
        """
        self._answer()

    def load(self) -> Told:
        """Have it load, and return what it saw. It is still there afterwards.

        Raises:
            SealcarError: why it can't be loaded.
        """
        self._say("go")
        return Told.of(self._answer())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process, politely first."""
        if kind is not None:
            self._process.terminate()
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        scratch.remove(self._process.pid)
        self._talk.close()

    def _say(self, line: str) -> None:
        stream = self._process.stdin
        if stream is None:
            raise errors.InternalError("a process that loads has no standard input")
        try:
            stream.write(line + "\n")
            stream.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise self._failure()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            kind = getattr(errors, str(answer["error"]["kind"]), errors.InternalError)
            known = isinstance(kind, type) and issubclass(kind, errors.SealcarError)
            raise (kind if known else errors.InternalError)(str(answer["error"]["message"]))
        return answer

    def _failure(self) -> errors.InternalError:
        code = self._process.wait(PATIENCE)
        self._talk.seek(max(0, self._talk.seek(0, os.SEEK_END) - _WORDS))
        words = self._talk.read().decode(errors="replace").strip().splitlines()
        last = words[-1] if words else "it said nothing"
        return errors.InternalError(f"a process that loads ended with exit code {code}: {last}")
