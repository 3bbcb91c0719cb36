"""Puts what came into the cache, if the disk takes it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

import structlog

from sealcar.errors import SealcarError

if TYPE_CHECKING:
    from sealcar_server.store.bucket.cache import Cache
    from sealcar_server.store.bucket.choosing import Job

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
_log: Final = structlog.get_logger("sealcar.store")


def keep(cache: Cache, job: Job, data: memoryview) -> bool:
    """Write pieces into the cache; False: the disk can't take them, and what nobody reads is gone.

    Args:
        cache: in which they have room.
        job: which they are.
        data: all of them.
    """
    for last in (False, True):
        try:
            job.cached.write(job.first, data)
        except OSError as error:
            if not last and error.errno in _FULL and _relieved(cache, 2 * len(data)):
                continue
            _log.warning("the cache can't be written", error=error.strerror)
            return False
        return True
    return False


def _relieved(cache: Cache, size: int) -> bool:
    try:
        with cache.lock:
            return cache.relieve(size)
    except SealcarError as error:
        # on a disk that is full even the map of a copy can't be written everywhere
        _log.warning("the cache can't make room", error=str(error))
        return False
