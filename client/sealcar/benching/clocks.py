"""Inside a process that loads: when it reached what, and where the bytes went.

ONNX Runtime has no hook that says "parsed". Its Python bindings make a session in two calls: the
first parses the model and makes the graph of it, the second initialises the session. So the moment
between them is when the main protobuf is parsed (of a model in ORT format: read and checked).
Payloads that come through the client are seen as they arrive; what ONNX Runtime or a provider reads
from files by itself is seen from outside, by `watching`, or found mapped by `touching`.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

from sealcar.benching.jobs import PARSED, PAYLOADS, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Clock:
    """Moments since `start`.

    Attributes:
        begun: seconds of the monotonic clock, which all processes of a machine share.
        moments: seconds since then.
        copied, borrowed, mapped: bytes, as in `Traffic`.
    """

    begun: float = 0.0
    moments: dict[str, float] = field(default_factory=dict)
    copied: int = 0
    borrowed: int = 0
    mapped: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def start(self) -> None:
        """Begin."""
        self.begun = time.monotonic()

    def reached(self, moment: str) -> None:
        """Note a moment; what is reached several times counts when it was last."""
        self.moments[moment] = time.monotonic() - self.begun

    def traffic(self) -> Traffic:
        """Return where the bytes went."""
        return Traffic(self.copied, self.borrowed, self.mapped)

    def watch_runtime(self, bindings: Any) -> None:  # noqa: ANN401  (publishes no types)
        """Note when a model is parsed, and what is lent to the runtime.

        Args:
            bindings: onnxruntime's own C module.
        """
        _around(
            bindings.InferenceSession,
            "initialize_session",
            before=lambda *_: self.reached(PARSED),
        )
        _around(
            bindings.SessionOptions,
            "add_initializer",
            after=lambda _made, _options, _name, value: self._lent(value),
        )

    def watch_client(self) -> None:
        """Note when payloads arrive through the client."""
        from sealcar.transfer.payloads import PayloadReader  # noqa: PLC0415  (only who connects)
        from sealcar.transfer.reading import Scope  # noqa: PLC0415  (the same)

        for whole in ("_receive", "_pass_on", "bring"):
            _around(PayloadReader, whole, after=lambda _made, reader, *_: self._read(reader.size))
        _around(Scope, "_share", after=lambda made, *_: self._shared(made))

    def arrived(self, copied: int) -> None:
        """Note that a payload is where it is used, by a loader that knows."""
        self._read(copied)

    def not_yet(self) -> None:
        """Take back that payloads are available: they came into files, and are read from there."""
        self.moments.pop(PAYLOADS, None)

    def _read(self, size: int) -> None:
        with self._lock:
            self.copied += size
            self.reached(PAYLOADS)

    def _shared(self, payload: Any | None) -> None:  # noqa: ANN401  (a mapped payload)
        if payload is not None:
            with self._lock:
                self.mapped += payload.size

    def _lent(self, value: Any) -> None:  # noqa: ANN401  (an OrtValue)
        self.borrowed += value.tensor_size_in_bytes()


def _around(
    owner: Any,  # noqa: ANN401  (a class, of ours or of the bindings)
    name: str,
    *,
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
) -> None:
    """Have a method of a class tell when it is called, or what it returned."""
    inner = getattr(owner, name)

    @wraps(inner)
    def told(*arguments: object, **named: object) -> object:
        if before is not None:
            before(*arguments)
        made = inner(*arguments, **named)
        if after is not None:
            after(made, *arguments)
        return made

    setattr(owner, name, told)
