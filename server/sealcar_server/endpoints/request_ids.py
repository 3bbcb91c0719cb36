"""The id of a request: every line that is logged for it has it as `request_id`.

One that belongs to a trace has that one's id too, as `trace_id`, and its span is the one of now.

They lie in context variables. What goes on on another thread takes a copy of the context along;
what is over takes the id back without a token, since the end may be in another context.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from structlog.contextvars import bind_contextvars, get_contextvars, unbind_contextvars

from sealcar_server import spans

if TYPE_CHECKING:
    import grpc

FIELD: Final = "x-request-id"
_NAME: Final = "request_id"
_TRACE: Final = "trace_id"
_somebodys: Final[ContextVar[bool]] = ContextVar("somebodys", default=False)
_FIT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def made() -> str:
    """Return a new id."""
    return os.urandom(8).hex()


def of_call(context: grpc.ServicerContext) -> str:
    """Return the id that a caller brings, if it is fit for a log; else a new one."""
    for field, value in context.invocation_metadata() or ():
        if field == FIELD and isinstance(value, str) and _FIT.fullmatch(value):
            return value
    return made()


def place_of(context: grpc.ServicerContext) -> tuple[str, str]:
    """Return the place in a trace that a caller says: traceparent and tracestate, or empty."""
    said = dict(context.invocation_metadata() or ())
    parent, state = said.get("traceparent", ""), said.get("tracestate", "")
    return (parent, state) if isinstance(parent, str) and isinstance(state, str) else ("", "")


def begin(request: str, span: spans.Span = spans.NOBODYS) -> None:
    """Have what this thread does and logs from now on be the request's; an empty one: nobody's."""
    if not request:
        end()
        return
    bind_contextvars(**fields(request, span))
    _somebodys.set(True)
    spans.enter(span)


def fields(request: str, span: spans.Span) -> dict[str, str]:
    """Return what a line has of its request."""
    named = {_NAME: request, _TRACE: span.trace_id}
    return {name: value for name, value in named.items() if value}


def end() -> None:
    """Have what this thread does and logs from now on be no request's."""
    if _somebodys.get():
        unbind_contextvars(_NAME, _TRACE)
        _somebodys.set(False)
        spans.enter(spans.NOBODYS)


def current() -> str:
    """Return the id of what is being done; empty if it is no request."""
    return str(get_contextvars().get(_NAME, ""))
