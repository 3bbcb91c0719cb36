"""Weights are packed by all threads of a session, if neither caller nor package said how.

Packing a copy of every matrix is most of what making a session takes on the CPU, and by itself the
runtime packs one after the other. Weights that come meanwhile are one more reason not to: a thread
that waits for its matrix holds nobody else up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealcar.ort import configuration

if TYPE_CHECKING:
    from sealcar.ort.runtime import SessionOptions

PARALLEL: Final = "session.prepack.enable_parallel"


def prefer_parallel(session_options: SessionOptions) -> None:
    """Have matrices packed side by side where nothing is set; a runtime that can't ignores it."""
    configuration.prefer(session_options, PARALLEL)
