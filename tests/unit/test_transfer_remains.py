"""Memory that is still somebody's, though nobody has it open or mapped."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from sealcar.transfer.descriptors import memory, read_only
from sealcar_server.transfer.remains import Remains

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handed:
    """Memory of a page that was handed to others."""

    def __init__(self) -> None:
        self.watched = memory("remains", 4096)

    def reference(self) -> int:
        return os.open(f"/proc/self/fd/{self.watched}", os.O_PATH)

    def close(self) -> None:
        os.close(self.watched)
        self.watched = -1


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_nobody_keeps_is_gone_at_once() -> None:
    gone: list[str] = []
    with Remains() as remains:
        remains.leave(Handed(), lambda: gone.append("it"))
        assert gone == ["it"]


def test_each_of_many_is_gone_when_its_last_reference_is() -> None:
    gone: list[int] = []
    with Remains() as remains:
        references = []
        for number in range(300):
            handed = Handed()
            references.append(handed.reference())
            remains.leave(handed, partial(gone.append, number))
        remains.look()
        assert gone == []
        os.close(read_only(references[7]))
        for number in (7, 0, 299):
            os.close(references[number])
            remains.look()
        assert gone == [7, 0, 299]
        for number in {*range(300)} - {7, 0, 299}:
            os.close(references[number])
        remains.look()
        assert sorted(gone) == [*range(300)]


def test_where_the_kernel_tells_nothing_it_is_taken_for_gone() -> None:
    gone: list[str] = []
    with no_more_descriptors():
        remains = Remains()
    handed = Handed()
    reference = handed.reference()
    remains.leave(handed, lambda: gone.append("it"))
    assert gone == ["it"]
    os.close(reference)
    remains.close()


def test_memory_without_a_descriptor_of_its_own_is_taken_for_gone() -> None:
    done: list[str] = []
    unwatched = SimpleNamespace(watched=-1, close=partial(done.append, "closed"))
    with Remains() as remains:
        remains.leave(unwatched, partial(done.append, "gone"))
    assert done == ["closed", "gone"]
