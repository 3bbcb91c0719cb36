"""What is done for a request, as spans of its caller's trace; nothing where no trace is kept.

The span of now lies in a context variable, which goes along wherever a request's id does. Who makes
spans is told by the composition root; everything else knows only this module.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Span:
    """One piece of work. This one is nobody's.

    Attributes:
        trace_id: 32 hexadecimal digits; empty: it belongs to no trace.
    """

    trace_id: str = ""

    def child(self, name: str, *, begun: float | None = None) -> Span:  # noqa: ARG002  (others use them)
        """Begin a part of it, now or at a time of `time.monotonic()`; `end` must follow."""
        return self

    def tell(self, **attributes: str | float) -> None:
        """Add what is known: never what a payload holds, nor a key, nor a name of the store."""

    def end(self, error: BaseException | None = None, *, at: float | None = None) -> None:
        """End it, now or at a time of `time.monotonic()`; with what went wrong."""


class Tracing(Protocol):
    """Keeps traces."""

    def begin(self, name: str, traceparent: str, tracestate: str) -> Span:
        """Begin the span of a request, at the place in a trace that its caller says."""


class _Untraced:
    def begin(self, name: str, traceparent: str, tracestate: str) -> Span:  # noqa: ARG002  (a hook's)
        """Keep nothing."""
        return NOBODYS


NOBODYS: Final = Span()
UNTRACED: Final[Tracing] = _Untraced()
_current: Final[ContextVar[Span]] = ContextVar("span", default=NOBODYS)


def enter(span: Span) -> None:
    """Have what this thread does from now on be part of it."""
    _current.set(span)


def current() -> Span:
    """Return the span of what is being done."""
    return _current.get()


@contextmanager
def span(name: str, **attributes: str | float) -> Iterator[None]:
    """Have what is done in a block be a span, if the request it is for is traced."""
    parent = _current.get()
    if parent is NOBODYS:
        yield
        return
    part = parent.child(name)
    part.tell(**attributes)
    _current.set(part)
    try:
        yield
    except BaseException as error:
        part.end(error)
        raise
    else:
        part.end()
    finally:
        # without a token: a generator may go on in another context
        _current.set(parent)
