"""One segment on the shelf, what was wanted of it, and who waits for it or has it."""

from __future__ import annotations

import enum
import time
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.transfer.budget import Budget, Lease, Ticket
    from sealcar_server.transfer.engine import Engine
    from sealcar_server.transfer.filling import SegmentFill
    from sealcar_server.transfer.metering import Meter
    from sealcar_server.transfer.remains import Remains
    from sealcar_server.transfer.segments import Segment

# of those who were given one segment; older ones have ended most likely
_REMEMBERED: Final = 256


class Stage(enum.Enum):
    """How far a segment is."""

    MEMORY = "memory"  # waits for room
    FILLING = "filling"
    READY = "ready"
    OVER = "over"  # given up


@dataclass(frozen=True)
class Wanted:
    """What a receiver asks for.

    Attributes:
        key: equal for equal bytes under one key.
        owner: whose memory it counts as, if it isn't there yet.
        size: of the payload.
        reader: opened with the caller's own package's keys, so that it is the caller's to read.
    """

    key: Hashable
    owner: Hashable
    size: int
    reader: SealedReader


class Permit(Protocol):
    """What somebody was given a segment by."""

    def check(self) -> None:
        """Raise if it doesn't stand any more."""


class Receiver(Protocol):
    """Who asked for a segment."""

    @property
    def who(self) -> Hashable:
        """Stands for the process; whoever asks for holders gets it back."""

    @property
    def what(self) -> Hashable:
        """Stands for what it was allowed."""

    @property
    def permit(self) -> Permit:
        """To be asked whether it still is."""

    def take(self, segment: Segment, /) -> bool:
        """Be given it; False: it isn't wanted or allowed any more."""

    def fail(self, error: SealcarError, /) -> None:
        """There will be none."""

    def progress(self, filled: int, /) -> None:
        """It isn't there yet."""


@dataclass(frozen=True)
class Place:
    """What a shelf works with.

    Attributes:
        budget, engine, meter: of the data socket.
        remains: gets what nobody has any more.
        post: runs something on the shelf's thread.
        chore: does what may block elsewhere, and says on the shelf's thread what came of it.
    """

    budget: Budget
    engine: Engine
    meter: Meter
    remains: Remains
    post: Callable[[Callable[[], None]], None]
    chore: Callable[
        [Hashable, Callable[[], None], Callable[[None, SealcarError | None], None]], None
    ]


class Shelved:
    """One segment from the first request to its end.

    Args:
        wanted: by the first who asked.
        room: what it takes of the budget.

    Attributes:
        used: when it last was.
        readers: who was given it; may have ended since.
        permits: the last one of each kind that it was given by.
        context: of the first request for it.
    """

    def __init__(self, wanted: Wanted, room: int) -> None:
        self.key, self.owner, self.size = wanted.key, wanted.owner, wanted.size
        self.reader, self.room = wanted.reader, room
        self.stage = Stage.MEMORY
        self.used = time.monotonic()
        self.ticket: Ticket | None = None
        self.lease: Lease | None = None
        self.segment: Segment | None = None
        self.fill: SegmentFill | None = None
        self.waiting: set[Receiver] = set()
        self.readers: dict[Hashable, None] = {}
        self.permits: dict[Hashable, Permit] = {}
        self.context = copy_context()

    @property
    def held(self) -> bool:
        """Whether another process has it."""
        return self.segment is not None and self.segment.held

    @property
    def locked(self) -> bool:
        """Whether its pages are kept in memory."""
        return self.segment is not None and self.segment.locked

    def note(self, receiver: Receiver) -> None:
        """Remember that somebody was given it, and by what."""
        self.readers[receiver.who] = None
        while len(self.readers) > _REMEMBERED:
            del self.readers[next(iter(self.readers))]
        self.permits[receiver.what] = receiver.permit

    def permitted(self) -> bool:
        """Whether anything that it was given by stands."""
        for permit in self.permits.values():
            try:
                permit.check()
            except SealcarError:
                continue
            return True
        return False

    def let_go(self) -> None:
        """Have it in memory no longer than others do."""
        if self.segment is not None:
            self.segment.let_go()

    def close(self, remains: Remains) -> None:
        """Free everything of it; its room once its memory is gone."""
        self.reader.close()
        if self.lease is None:
            return
        if self.segment is None:
            self.lease.close()
        else:
            remains.leave(self.segment, self.lease.close)
