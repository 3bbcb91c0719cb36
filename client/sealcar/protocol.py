"""Which versions of the protocol this release speaks, and whom to blame if none is common.

Both doors have the same versions: on the data socket they are said in `Attest`, over gRPC in the
metadata of every call. Whoever refuses says which side to update.
"""

from __future__ import annotations

from typing import Final

from sealcar.errors import IncompatibleError

PROTOCOL: Final = 1
OLDEST: Final = 1
_MAX_RELEASE: Final = 40


def check_answer(version: int, release: str) -> None:
    """Return if this release speaks the version that a daemon chose.

    Args:
        version: what will be spoken, as the daemon has it.
        release: the daemon's, for the message.

    Raises:
        IncompatibleError: it doesn't; the message says which side to update.
    """
    daemon = f"the daemon (release {release[:_MAX_RELEASE]!a})"
    if version < OLDEST:
        raise IncompatibleError(
            f"{daemon} speaks protocol {version}, this client {OLDEST} or newer: update the daemon"
        )
    if version > PROTOCOL:
        raise IncompatibleError(
            f"{daemon} speaks protocol {version}, this client at most {PROTOCOL}: update the client"
        )
