"""The id of a request: every line that is logged for it has it as `request_id`.

It lies in structlog's context variables. What goes on on another thread takes a copy of the context
along; what is over takes the id back without a token, since the end may be in another context.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from structlog.contextvars import bind_contextvars, get_contextvars, unbind_contextvars

if TYPE_CHECKING:
    import grpc

FIELD: Final = "x-request-id"
_NAME: Final = "request_id"
_FIT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def made() -> str:
    """Return a new id."""
    return secrets.token_hex(8)


def of_call(context: grpc.ServicerContext) -> str:
    """Return the id that a caller brings, if it is fit for a log; else a new one."""
    for field, value in context.invocation_metadata() or ():
        if field == FIELD and isinstance(value, str) and _FIT.fullmatch(value):
            return value
    return made()


def begin(request: str) -> None:
    """Have what this thread logs from now on carry the id; an empty one: none."""
    if request:
        bind_contextvars(request_id=request)
    else:
        end()


def end() -> None:
    """Have what this thread logs from now on carry no id."""
    unbind_contextvars(_NAME)


def current() -> str:
    """Return the id of what is being done; empty if it is no request."""
    return str(get_contextvars().get(_NAME, ""))
