"""One process that looks at models, from its start to its verdict.

It answers in JSON, or is believed to say no. A model may have taken it over, so nothing that it
says is trusted further than that.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

from sealcar.errors import ExhaustedError, InternalError, InvalidPackageError
from sealcar.names import shown
from sealcar.onnxscan import jobs
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service import unchangeable

# isolated: neither the environment nor the current directory decides which code is run
_COMMAND: Final = (sys.executable, "-I", "-m", "sealcar.onnxscan.checking")


@dataclass(frozen=True)
class Verdict:
    """What it said.

    Attributes:
        filtered: the process could make no system call but a few.
        job: which model is refused.
        reason: why; empty: none is.
    """

    filtered: bool
    job: int = 0
    reason: str = ""


class Onlooker:
    """The process.

    Args:
        orders: what it is told.
        seconds: how long it may take, from now on.

    Raises:
        ExhaustedError: it can't be started.
    """

    def __init__(self, orders: jobs.Orders, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._jobs = len(orders.jobs)
        told = unchangeable.of("sealcar-orders", jobs.written(orders))
        try:
            self._process = subprocess.Popen(  # noqa: S603  (our own program, no argument of anybody's)
                _COMMAND,
                stdin=told,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[job.descriptor for job in orders.jobs],
                env={},
                cwd="/",
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            # its text has the path of the interpreter, which is nobody else's business
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ExhaustedError(
                f"no process to look at the model can be started: {reason}"
            ) from error
        finally:
            os.close(told)

    def verdict(self) -> Verdict:
        """Return what it says, once it has ended.

        Raises:
            InvalidPackageError: it took too long.
            InternalError: it ended in another way than it should.
        """
        with self._process as process:
            assert process.stdout  # noqa: S101  (asked for above)
            try:
                said = self._read(process.stdout.fileno())
                status = self._wait()
            finally:
                process.kill()
        if status == -signal.SIGXCPU:
            raise self._late()
        if status:
            raise InternalError(f"the process that looks at the model {_end(status)}")
        return _parsed(said, self._jobs)

    def _read(self, pipe: int) -> bytes:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        said = b""
        while len(said) <= jobs.MAX_ANSWER:
            left = self._deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise self._late()
            piece = os.read(pipe, jobs.MAX_ANSWER + 1 - len(said))
            if not piece:
                return said
            said += piece
        raise InternalError("the process that looks at the model says too much")

    def _wait(self) -> int:
        try:
            return self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self._late() from None

    def _late(self) -> InvalidPackageError:
        return InvalidPackageError(
            f"to look at the model takes longer than {self._seconds:g} s: simplify it, or raise "
            "limits.check_time"
        )


def _parsed(said: bytes, count: int) -> Verdict:
    value = strict_json(said, "answer", error=InternalError)
    if isinstance(value, dict) and value.keys() == {"filtered", "refused"}:
        filtered, refused = value["filtered"], value["refused"]
        if isinstance(filtered, bool) and refused is None:
            return Verdict(filtered)
        if isinstance(filtered, bool) and isinstance(refused, dict):
            job, reason = refused.get("job"), refused.get("reason")
            if type(job) is int and 0 <= job < count and _is_reason(reason):
                return Verdict(filtered, job, str(reason))
    raise InternalError(f"the process that looks at the model answers {shown(said)}")


def _is_reason(reason: object) -> bool:
    # nothing that steers a terminal or breaks a line
    return isinstance(reason, str) and 0 < len(reason) <= jobs.MAX_REASON and reason.isprintable()


def _end(status: int) -> str:
    if status > 0:
        return f"failed with status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"
