"""What may be configured of a store in a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sealcar_server.store.bucket.cache import CacheMeter


@dataclass(frozen=True)
class Options:
    """What may be configured.

    Attributes:
        refresh: seconds after which what others changed is noticed.
        cache_size: bytes of disk that copies of payloads may take.
        read_only: nothing in the bucket is changed.
        abandoned: seconds after which what nothing refers to was left by somebody who died.
        meter: is told of the copies.
    """

    refresh: float = 10.0
    cache_size: int = 10 << 30
    read_only: bool = False
    abandoned: float = 86_400.0
    meter: CacheMeter | None = None
