"""The demonstration's child processes: started apart, heard out, never left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from typing import IO, TYPE_CHECKING, Any, Final, Self

from sealcar import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE: Final = 15.0
FINISH: Final = 60.0
_KEPT_LINES: Final = 30


class Child:
    """One process. Leaving the `with` block ends it, by force if it doesn't go.

    Args:
        module: of sealcar.demo; gets this process's id as its first argument.
        arguments: its further arguments.
        environment: added to this process's own.
        answering: it says JSON objects on standard output; else that is talk like the rest.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        answering: bool = True,
    ) -> None:
        self.name = " ".join([module, *arguments[:1]])
        self._heard: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", f"sealcar.demo.{module}", str(os.getpid()), *arguments],
            env={**_own_environment(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if answering else subprocess.STDOUT,
            text=True,
            errors="replace",
            # Ctrl-C is for the demonstration, which then ends its children in order
            start_new_session=True,
        )
        talk = self._process.stderr if answering else self._process.stdout
        self._listener = threading.Thread(target=self._listen, args=(talk,), daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield what the process says, one object a line, until it ends.

        Raises:
            SealcarError: what it failed with.
        """
        stream = self._process.stdout
        for line in stream or ():
            answer = json.loads(line)
            if "error" in answer:
                raise _error(answer["error"])
            yield answer
        if self._process.wait(PATIENCE) != 0:
            raise self.failure()

    def finish(self) -> None:
        """Wait until the process has done what it was started for.

        Raises:
            InternalError: it failed; the message has its last words.
        """
        if self._process.wait(FINISH) != 0:
            raise self.failure()

    def check(self) -> None:
        """Make sure that the process runs.

        Raises:
            InternalError: it has ended; the message has its last words.
        """
        if self._process.poll() is not None:
            raise self.failure()

    def failure(self) -> errors.InternalError:
        """Return what is known about its end."""
        self._listener.join(1)
        # of a traceback and of our own errors, the last line says what happened
        words = next((line for line in reversed(self._heard) if line.strip()), "it said nothing")
        code = self._process.returncode
        return errors.InternalError(f"{self.name} ended with exit code {code}: {words}")

    def end(self) -> int:
        """End the process now, politely first; return its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        self._listener.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _listen(self, talk: IO[str] | None) -> None:
        for line in talk or ():
            self._heard.append(line.rstrip())


def _own_environment() -> dict[str, str]:
    """This process's, without settings of some other client or daemon."""
    return {key: value for key, value in os.environ.items() if not key.startswith("SEALCAR")}


def _error(about: Mapping[str, Any]) -> errors.SealcarError:
    kind = getattr(errors, str(about["kind"]), errors.InternalError)
    if not (isinstance(kind, type) and issubclass(kind, errors.SealcarError)):
        kind = errors.InternalError
    return kind(str(about["message"]))
