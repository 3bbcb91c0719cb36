"""Segments by what is in them: filled once, handed to whoever may, kept while there is room.

A segment counts in the budget until the kernel says that nobody has it any more. One that nobody
has is kept for the next reader, for a while and until others wait for memory; then the one that was
handed out longest ago goes first.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sealcar.errors import ExhaustedError, SealcarError, UnavailableError
from sealcar_server.transfer.filling import SegmentFill
from sealcar_server.transfer.locking import PageLocks
from sealcar_server.transfer.segments import Segment
from sealcar_server.transfer.shelved import Shelved, Stage

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sealcar_server.transfer.budget import Lease
    from sealcar_server.transfer.shelved import Place, Receiver, Wanted

# each costs a descriptor
_MOST: Final = 1024
_PAGE: Final = 4096
# all of them together leave room for rings
_SEGMENTS: Final = "segments"


class Shelf:
    """Used by one thread, but for `holders`.

    Args:
        place: what it works with.
        wait: seconds that a segment waits for memory.
        idle: seconds that one is kept which nobody has.
    """

    def __init__(self, place: Place, *, wait: float, idle: float) -> None:
        self._place, self._wait, self._idle = place, wait, idle
        self._locks = PageLocks()
        self._shelved: dict[Hashable, Shelved] = {}
        # not handed out any more, and still in somebody's memory
        self._dropped: list[Shelved] = []

    def get(self, wanted: Wanted, receiver: Receiver) -> None:
        """Have a receiver be given a segment as soon as it is complete; perhaps at once.

        The reader in `wanted` belongs to the shelf from now on.

        Raises:
            ExhaustedError: it could never be.
        """
        shelved = self._shelved.get(wanted.key)
        if shelved is not None:
            wanted.reader.close()
        else:
            try:
                shelved = self._begin(wanted)
            except BaseException:
                wanted.reader.close()
                raise
        if shelved.stage is Stage.READY:
            self._give(shelved, receiver)
        else:
            shelved.waiting.add(receiver)

    def leave(self, wanted: Wanted, receiver: Receiver) -> None:
        """Wait no longer; what nobody waits for isn't filled to its end."""
        shelved = self._shelved.get(wanted.key)
        if shelved is None or receiver not in shelved.waiting:
            return
        shelved.waiting.discard(receiver)
        if not shelved.waiting:
            self._give_up(shelved, UnavailableError("nobody waits for it any more"))

    def look(self) -> None:
        """Free what nobody has any more, and tell who waits how far it is. Called now and then."""
        now = time.monotonic()
        for shelved in list(self._shelved.values()):
            if shelved.stage is not Stage.READY:
                self._tell(shelved, now)
            elif shelved.held:
                shelved.used = now
            else:
                shelved.readers.clear()
                if now - shelved.used > self._idle:
                    self._drop(shelved)
        for shelved in [one for one in self._dropped if not one.held]:
            self._dropped.remove(shelved)
            shelved.close(self._place.remains)
        self.make_room()
        kept = [one for one in self._shelved.values() if one.stage is Stage.READY] + self._dropped
        locked = sum(one.size for one in kept if one.locked)
        self._place.meter.shared(len(kept), locked, sum(one.size for one in kept) - locked)

    def make_room(self) -> None:
        """Give up what nobody has, the longest unused first, while it helps somebody who waits."""
        budget = self._place.budget
        if not budget.contended:
            return
        for shelved in self._unused():
            if budget.wants_from(shelved.owner):
                self._drop(shelved)

    def drop_fallen(self) -> None:
        """Hand out no more what nobody may read any more of those who were given it."""
        for shelved in list(self._shelved.values()):
            if shelved.stage is Stage.READY and not shelved.permitted():
                self._drop(shelved)

    def holders(self) -> list[Hashable]:
        """Return who was given what somebody still has. From any thread."""
        kept = [*list(self._shelved.values()), *self._dropped]
        return list({reader for one in kept if one.held for reader in list(one.readers)})

    def close(self) -> None:
        """Drop everything that is complete."""
        for shelved in [*self._shelved.values(), *self._dropped]:
            if shelved.stage is Stage.READY:
                shelved.close(self._place.remains)

    def _begin(self, wanted: Wanted) -> Shelved:
        budget = self._place.budget
        shelved = Shelved(wanted, max(-(-wanted.size // _PAGE), 1) * _PAGE)
        if shelved.room > budget.share:
            raise ExhaustedError(
                f"a shared segment of {wanted.size} bytes doesn't fit into the {budget.share} that"
                " one user may have of transfer.memory_limit: raise it, or read it privately"
            )
        if len(self._shelved) + len(self._dropped) >= _MOST:
            self._drop_one()
        self._shelved[wanted.key] = shelved
        shelved.ticket = budget.ask(
            wanted.owner,
            shelved.room,
            lambda lease: self._place.post(lambda: self._granted(shelved, lease)),
            group=_SEGMENTS,
        )
        self.make_room()
        return shelved

    def _drop_one(self) -> None:
        for shelved in self._unused():
            self._drop(shelved)
            return
        raise ExhaustedError(f"{_MOST} shared segments are in use", retry_after=1.0)

    def _unused(self) -> list[Shelved]:
        return [one for one in self._shelved.values() if one.stage is Stage.READY and not one.held]

    def _granted(self, shelved: Shelved, lease: Lease) -> None:
        shelved.lease = lease
        if shelved.stage is Stage.OVER:
            shelved.close(self._place.remains)
            return
        self._place.meter.spent("memory", time.monotonic() - shelved.used)
        try:
            segment = shelved.segment = Segment(shelved.size, self._locks)
        except ExhaustedError as error:
            self._fail(shelved, error)
            shelved.close(self._place.remains)
            return
        shelved.used = time.monotonic()
        shelved.stage = Stage.FILLING
        # whoever gives memory back brings this about, for the one who asked first
        shelved.fill = shelved.context.run(
            SegmentFill,
            shelved.reader,
            segment,
            self._place.engine,
            lambda error: self._place.post(lambda: self._filled(shelved, segment, error)),
        )
        shelved.fill.owner = shelved.owner
        shelved.fill.begin()

    def _filled(self, shelved: Shelved, segment: Segment, error: SealcarError | None) -> None:
        shelved.reader.close()
        if error is not None or shelved.stage is Stage.OVER:
            self._finished(shelved, error)
            return
        # sealing and locking look at every page
        self._place.chore(
            shelved.owner, segment.finish, lambda _, failure: self._finished(shelved, failure)
        )

    def _finished(self, shelved: Shelved, error: SealcarError | None) -> None:
        if shelved.stage is Stage.OVER or error is not None:
            if error is not None:
                self._fail(shelved, error)
            shelved.close(self._place.remains)
            return
        self._place.meter.spent("fill", time.monotonic() - shelved.used)
        if shelved.fill is not None:
            shelved.fill.spent.tell(self._place.meter)
        shelved.stage = Stage.READY
        waiting, shelved.waiting = shelved.waiting, set()
        for receiver in waiting:
            self._give(shelved, receiver)

    def _give(self, shelved: Shelved, receiver: Receiver) -> None:
        shelved.used = time.monotonic()
        # the order of the shelf is that of use
        self._forget(shelved)
        self._shelved[shelved.key] = shelved
        if shelved.segment is not None and receiver.take(shelved.segment):
            shelved.note(receiver)

    def _give_up(self, shelved: Shelved, reason: SealcarError) -> None:
        """Fill it no further. What is under way elsewhere finds that it is over, and cleans up."""
        self._fail(shelved, reason)
        if shelved.fill is not None:
            shelved.fill.stop(reason)
        elif shelved.ticket is not None and shelved.ticket.cancel():
            shelved.close(self._place.remains)

    def _fail(self, shelved: Shelved, error: SealcarError) -> None:
        shelved.stage = Stage.OVER
        self._forget(shelved)
        waiting, shelved.waiting = shelved.waiting, set()
        for receiver in waiting:
            # each names a place of its own in it, which isn't the others' to know
            receiver.fail(type(error)(error.message, retry_after=error.retry_after))

    def _forget(self, shelved: Shelved) -> None:
        # by now there may be another one of the same key
        if self._shelved.get(shelved.key) is shelved:
            del self._shelved[shelved.key]

    def _drop(self, shelved: Shelved) -> None:
        self._forget(shelved)
        if shelved.held:
            shelved.let_go()
            self._dropped.append(shelved)
        else:
            shelved.close(self._place.remains)

    def _tell(self, shelved: Shelved, now: float) -> None:
        if shelved.stage is Stage.MEMORY and now - shelved.used > self._wait:
            self._give_up(shelved, self._place.budget.exhausted())
            return
        filled = shelved.fill.filled if shelved.fill is not None else 0
        for receiver in list(shelved.waiting):
            receiver.progress(filled)
