"""Has models looked at by processes that hold nothing else: no key, no file, no way out.

A model's plaintext goes from the decrypting thread's memory into one that nobody can write to any
more, and the process gets a descriptor of it.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import ExhaustedError, InvalidPackageError
from sealcar.onnxscan import jobs, ortformat
from sealcar_server.service.checking import suspects
from sealcar_server.service.onlooker import Onlooker
from sealcar_server.service.unchangeable import filled, put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.checking import Opening, Staged, Suspect

# beside the models themselves: real ones take a few mebibytes to look at
_MEMORY: Final = 512 << 20
_AT_ONCE: Final = 4
_MODELS: Final = 32
_log: Final = structlog.get_logger("sealcar")


class ConfinedChecker:
    """Safe to share between threads.

    Args:
        limit: bytes of models that may be looked at at a time, and of the largest one.
        seconds: how long a look may take.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit, self._seconds = limit, seconds
        self._free = limit
        self._changed = threading.Condition()
        self._warned = False

    def check(self, staged: Sequence[Staged], opening: Opening, scratch: Scratch) -> None:
        """Look at all models; see `ModelChecker`."""
        batch: list[Suspect] = []
        size = 0
        for suspect in suspects(staged):
            with suspect.named():
                self._refuse_large(suspect)
            size += suspect.payload.size
            if batch and (size > self._limit // _AT_ONCE or len(batch) == _MODELS):
                self._look(batch, opening, scratch)
                batch, size = [], suspect.payload.size
            batch.append(suspect)
        if batch:
            self._look(batch, opening, scratch)

    def _refuse_large(self, suspect: Suspect) -> None:
        if suspect.payload.size > self._limit:
            raise InvalidPackageError(
                f"the model has {suspect.payload.size} bytes, the daemon looks at {self._limit} at "
                "most: move its initializers out of it, or raise limits.checked_model"
            )

    def _look(self, suspected: list[Suspect], opening: Opening, scratch: Scratch) -> None:
        # a quarter at least, so that there are never more than a few processes
        share = max(sum(suspect.payload.size for suspect in suspected), self._limit // _AT_ONCE)
        with self._room(share), contextlib.ExitStack() as held:
            batch, told = [], []
            for suspect in suspected:
                with suspect.named():
                    descriptor = _copied(opening, suspect, scratch)
                if descriptor is not None:
                    held.callback(os.close, descriptor)
                    batch.append(suspect)
                    told.append(_job(suspect, descriptor))
            if batch:
                self._ask(batch, tuple(told))

    def _ask(self, batch: list[Suspect], told: tuple[jobs.Job, ...]) -> None:
        orders = jobs.Orders(math.ceil(self._seconds), _MEMORY, told)
        with batch[0].named():
            verdict = Onlooker(orders, self._seconds).verdict()
        if not verdict.filtered and not self._warned:
            self._warned = True
            _log.warning("this kernel doesn't filter the calls of the process that looks at models")
        if verdict.reason:
            with batch[verdict.job].named():
                raise InvalidPackageError(verdict.reason)

    @contextlib.contextmanager
    def _room(self, size: int) -> Iterator[None]:
        with self._changed:
            if not self._changed.wait_for(lambda: self._free >= size, self._seconds):
                raise ExhaustedError(
                    "too many models are being looked at", retry_after=self._seconds
                )
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()


def _job(suspect: Suspect, descriptor: int) -> jobs.Job:
    payload = suspect.payload
    return jobs.Job(descriptor, payload.size, payload.name, suspect.data, suspect.blobs)


def _is_ort_format(reader: SealedReader, scratch: Scratch) -> bool:
    """Tell whether it is a model in ORT's own format, of which no more is read.

    Raises:
        InvalidPackageError: it may be that and an ONNX model too.
    """
    span = reader.read_segment(0, scratch)
    return ortformat.is_ort_format(scratch.plain[: min(span.plain_size, ortformat.HEAD)])


def _copied(opening: Opening, suspect: Suspect, scratch: Scratch) -> int | None:
    """Return a descriptor of all of it; None if it needs no look."""
    with opening(suspect.owner, suspect.payload, scratch) as reader:
        if _is_ort_format(reader, scratch):
            return None

        def fill(descriptor: int) -> None:
            for index in range(reader.layout.count):
                span = reader.read_segment(index, scratch)
                put(descriptor, scratch.plain[: span.plain_size], span.plain_at)

        return filled("sealcar-model", reader.layout.plain_size, fill)
