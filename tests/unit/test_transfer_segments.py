"""Segments, asked by several threads who has them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from sealcar_server.transfer.locking import PageLocks
from sealcar_server.transfer.segments import Segment

ASKED = 2000


def test_any_thread_may_ask_who_has_a_segment_while_others_do() -> None:
    segment = Segment(5, PageLocks())
    segment.put(0, memoryview(b"bytes"))
    segment.finish()

    def asked(_: int) -> bool:
        return any(segment.held for _ in range(ASKED))

    with ThreadPoolExecutor(4) as threads:
        assert not any(threads.map(asked, range(4)))
    given = segment.descriptor()
    assert segment.held
    os.close(given)
    segment.close()
    assert not segment.held
