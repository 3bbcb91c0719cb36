"""Which versions of the protocol this daemon speaks, and to whom it says that he is behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sealcar.errors import IncompatibleError, InvalidRequestError

if TYPE_CHECKING:
    import grpc

PROTOCOL: Final = 1
OLDEST: Final = 1
FIELD: Final = "x-sealcar-protocol"  # "OLDEST-NEWEST", in the metadata of a call
_RANGE: Final = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


def common(newest: int, oldest: int = 0) -> int:
    """Return the version that will be spoken: the lower of both sides' newest.

    Args:
        newest: that the client speaks.
        oldest: that the client speaks; 0: it will say so itself.

    Raises:
        IncompatibleError: there is none; the message says which side to update.
    """
    if newest < OLDEST:
        raise IncompatibleError(
            f"the client speaks protocol {newest}, this daemon {OLDEST} or newer: update the client"
        )
    if oldest > PROTOCOL:
        raise IncompatibleError(
            f"the client speaks protocol {oldest} or newer, this daemon at most {PROTOCOL}:"
            " update the daemon"
        )
    return min(newest, PROTOCOL)


def check_call(context: grpc.ServicerContext) -> None:
    """Return if whoever calls speaks a version in common, or doesn't say which.

    Raises:
        IncompatibleError: he doesn't.
        InvalidRequestError: what he says is no range of versions.
    """
    for field, value in context.invocation_metadata() or ():
        if field == FIELD:
            said = _RANGE.fullmatch(value if isinstance(value, str) else "")
            if said is None:
                raise InvalidRequestError(f"{FIELD} has to be OLDEST-NEWEST, as in 1-1")
            common(int(said[2]), int(said[1]))
