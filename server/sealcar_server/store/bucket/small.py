"""Small objects of a bucket, remembered: each is asked for again once that was long ago.

So what another daemon changes is noticed within that time, and what is asked for all the time costs
one short request in it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sealcar.errors import NotFoundError, SealcarError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar_server.store.bucket.objects import Listed, Objects

_KEPT: Final = 64 << 20  # bytes
_AT_ONCE: Final = 16
_EACH: Final = 512  # bytes that one costs beside its content


@dataclass(frozen=True, slots=True)
class Small:
    """One, as it was when it was last asked for.

    Attributes:
        data: its bytes; None: there is none.
        etag: of it; "" without one.
        at: when that was, by the monotonic clock.
    """

    data: bytes | None
    etag: str
    at: float


class SmallObjects:
    """Safe to share between threads. Everything raises as `Objects.read` does, but NotFoundError.

    Args:
        objects: of the bucket.
        refresh: seconds after which one is asked for again.
    """

    def __init__(self, objects: Objects, refresh: float) -> None:
        self._objects, self._refresh = objects, refresh
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Small] = OrderedDict()
        self._size = 0

    def get(self, key: str, limit: int) -> bytes | None:
        """Return an object's bytes, at most so old; None if there is none."""
        known = self._find(key)
        if known is None or time.monotonic() - known.at >= self._refresh:
            known = self.now(key, limit)
        return known.data

    def kept(self, key: str, limit: int) -> Small:
        """Return what is known of an object, however old; ask if nothing is."""
        known = self._find(key)
        return known if known is not None and known.data is not None else self.now(key, limit)

    def now(self, key: str, limit: int) -> Small:
        """Return an object as it is now."""
        known = self._find(key)
        at = time.monotonic()
        try:
            changed = self._objects.read_changed(key, limit, known.etag if known else "")
        except NotFoundError:
            return self._keep(key, Small(None, "", at))
        if changed is None and known is not None:
            return self._keep(key, replace(known, at=at))
        data, etag = changed or self._objects.read(key, limit)
        return self._keep(key, Small(data, etag, at))

    def have(self, keys: Iterable[tuple[str, int]]) -> None:
        """Ask for those that aren't known, or not lately, several at a time; what fails is silent.

        Args:
            keys: each with the limit of its size.
        """
        oldest = time.monotonic() - self._refresh
        missing = [
            (key, limit)
            for key, limit in keys
            if (known := self._find(key)) is None or known.at <= oldest
        ]
        if not missing:
            return

        def ask(wanted: tuple[str, int]) -> None:
            # whoever wants that one asks again, and is told
            with suppress(SealcarError):
                self.now(*wanted)

        with ThreadPoolExecutor(min(_AT_ONCE, len(missing)), "small-objects") as pool:
            list(pool.map(ask, missing))

    def confirm(self, listed: Iterable[Listed], at: float) -> None:
        """Know of those that a list shows unchanged that they were so at that time."""
        with self._lock:
            for one in listed:
                known = self._known.get(one.key)
                if known is not None and known.etag == one.etag and known.at < at:
                    self._known[one.key] = replace(known, at=at)

    def etag(self, key: str) -> str:
        """Return the etag of an object as it was last seen; "" of none."""
        known = self._find(key)
        return known.etag if known else ""

    def put(self, key: str, data: bytes | None, etag: str = "") -> None:
        """Remember what was written; None: removed."""
        self._keep(key, Small(data, etag, time.monotonic()))

    def forget(self, key: str) -> None:
        """Ask for it the next time."""
        with self._lock:
            self._drop(key)

    def _find(self, key: str) -> Small | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def _keep(self, key: str, found: Small) -> Small:
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.at > found.at:
                # asked later, or written since
                return known
            self._drop(key)
            self._known[key] = found
            self._size += _EACH + len(found.data or b"")
            while self._size > _KEPT and len(self._known) > 1:
                self._drop(next(iter(self._known)))
        return found

    def _drop(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._size -= _EACH + len(known.data or b"")
