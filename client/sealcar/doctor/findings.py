"""What a look finds: one sentence, how good it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class State(StrEnum):
    """How good a finding is.

    Attributes:
        OK: as it should be.
        WEAKER: it works, but protects less or takes longer than it could.
        PROBLEM: it doesn't work, or leaves open what sealcar is there to close.
        UNKNOWN: it can't be seen from here.
    """

    OK = "ok"
    WEAKER = "weaker"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: what was looked at, in a word or two.
        state: how good it is.
        text: one sentence.
        remedy: what to do; empty if nothing is to be done.
    """

    check: str
    state: State
    text: str
    remedy: str = ""


_WORST_FIRST = (State.PROBLEM, State.WEAKER, State.UNKNOWN)


def worst(found: Iterable[Finding]) -> State:
    """Return the state of all findings together."""
    states = {each.state for each in found}
    return next((state for state in _WORST_FIRST if state in states), State.OK)
