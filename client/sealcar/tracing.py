"""Spans of what a client does, in an application that traces with OpenTelemetry; elsewhere nothing.

Whether an application does, it shows by having imported OpenTelemetry's API: this package imports
none of it, and needs none of it installed. Spans go where the application sends its own. Their
names and attributes are names and sizes, never what a payload holds.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from sealcar._version import __version__
from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.transfer.scopes import ScopeName

_API: Final = "opentelemetry.trace"
_LAST: Final = "use_span"  # of what is used of the API, defined last: it is imported whole then
_MOST_STATE: Final = 512  # bytes of tracestate that everybody has to pass on
_Call = TypeVar("_Call", bound="Callable[..., Any]")


class Where(NamedTuple):
    """A place in a trace, as W3C Trace Context writes it; empty: none."""

    traceparent: str = ""
    tracestate: str = ""


class Span:
    """One piece of work. This one is nobody's: the application doesn't trace."""

    def active(self) -> AbstractContextManager[object]:
        """Have what is begun meanwhile be part of it."""
        return nullcontext()

    def tell(self, **attributes: str | int) -> None:
        """Add what came out meanwhile; what is empty isn't said."""

    def end(self, error: BaseException | None = None) -> None:
        """End it, the first time; with what went wrong."""


class _Traced(Span):
    def __init__(self, api: Any, name: str, attributes: dict[str, str | int]) -> None:  # noqa: ANN401  (a module)
        self._api = api
        self._ended = False
        self._span = api.get_tracer("sealcar", __version__).start_span(f"sealcar.{name}")
        self.tell(**attributes)

    def active(self) -> AbstractContextManager[object]:
        context: AbstractContextManager[object] = self._api.use_span(
            self._span, record_exception=False, set_status_on_exception=False
        )
        return context

    def tell(self, **attributes: str | int) -> None:
        for name, value in attributes.items():
            if value != "":
                self._span.set_attribute(f"sealcar.{name}", value)

    def end(self, error: BaseException | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(self._api.StatusCode.ERROR)
        if isinstance(error, SealcarError):
            self.tell(request_id=error.request_id)
        self._span.end()


_NOBODYS: Final = Span()


def begin(name: str, **attributes: str | int) -> Span:
    """Begin a span, which is part of the one that is active; `end` must follow."""
    api = _api()
    return _NOBODYS if api is None else _Traced(api, name, attributes)


def begin_payload(name: str, scope: ScopeName, payload: str) -> Span:
    """Begin a span of what is done with a payload; `end` must follow."""
    api = _api()
    if api is None:
        return _NOBODYS
    return _Traced(api, name, {**of_scope(scope), "payload": payload})


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[Span]:
    """Have what is done in a block be a span."""
    begun = begin(name, **attributes)
    try:
        with begun.active():
            yield begun
    except BaseException as error:
        begun.end(error)
        raise
    begun.end()


def of_scope(name: ScopeName) -> dict[str, str | int]:
    """Return a scope as attributes."""
    found = {
        "package": name.package,
        "version": name.version,
        "component": name.component,
        "variant": name.variant,
    }
    return {**found, "generation": name.generation} if name.generation else dict(found)


def where() -> Where:
    """Return the place in a trace of what is being done now, for the daemon."""
    api = _api()
    if api is None:
        return Where()
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return Where()
    state = context.trace_state.to_header()
    return Where(
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}",
        state if len(state.encode()) <= _MOST_STATE else "",
    )


def bound(call: _Call) -> _Call:
    """Return a function whose work belongs to the span that is active now, on whatever thread."""
    if _api() is None:
        return call
    here = copy_context()

    def run(*arguments: Any) -> Any:  # noqa: ANN401  (the function's own)
        # of a copy: two threads can't be in one context
        return here.copy().run(call, *arguments)

    return run  # type: ignore[return-value]  # it takes and returns the same


def _api() -> Any | None:  # noqa: ANN401  (a module that may not be there)
    found = sys.modules.get(_API)
    return found if hasattr(found, _LAST) else None
