"""What a provider copies from a blob: its memory is on huge pages, and nobody else's is."""

from __future__ import annotations

import ctypes
import mmap
import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
from support.areas import Area
from support.raw_clients import until

from sealcar.ort import copies, runtime
from sealcar.ort.copies import LEAST, CopyAhead, Stretch, new_in
from sealcar.ort.scopes import BlobReader
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import _libc, protect

if TYPE_CHECKING:
    from collections.abc import Iterator


PAGE: Final = mmap.PAGESIZE
# a session that is made already
MADE: Final = threading.Event()
MADE.set()
asked_for = pytest.mark.skipif(
    not copies.asked_for(),
    reason="huge pages go to everybody here, or to nobody",
)


@contextmanager
def mapped(size: int) -> Iterator[int]:
    """Map as much as an allocator does for `size` bytes, beside nothing; and give the address."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, size + 3 * PAGE, flags=flags) as made:
        with Exported(made) as whole:
            address = whole.address
        # what may be read only is no neighbour
        protect(address, PAGE)
        protect(address + size + 2 * PAGE, PAGE)
        yield address + PAGE


def advised(address: int) -> bool:
    return Area(address).advised


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers that end because they are told, not because nothing came for a moment."""
    monkeypatch.setattr(copies, "_IN_VAIN", 1 << 20)
    monkeypatch.setattr(copies, "_LONGEST", 1.0)


def watching() -> int:
    return sum(thread.name == "copies" for thread in threading.enumerate())


def no_longer_watching() -> None:
    until(lambda: not watching())


@asked_for
def test_memory_for_a_copy_is_advised_and_what_was_there_before_is_not() -> None:
    with mapped(LEAST) as earlier, mapped(LEAST) as own, CopyAhead(lambda _: own, MADE) as copy:
        assert copy(LEAST) == own
        # a look at what is there takes a moment, as bringing the blob does
        threading.Event().wait(0.1)
        with mapped(LEAST) as made, mapped(3 * LEAST) as larger, mapped(LEAST // 2) as smaller:
            copy.hand_over()
            no_longer_watching()
            assert advised(made + PAGE)
            others = (earlier, own, larger, smaller)
            assert not any(advised(one + PAGE) for one in others)


@asked_for
def test_a_copy_that_begins_a_moment_later_is_advised_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_LOOKS", 1000)
    with mapped(LEAST) as own, CopyAhead(lambda _: own, MADE) as copy:
        copy(LEAST)
        threading.Event().wait(0.1)
        copy.hand_over()
        with mapped(LEAST) as made:
            no_longer_watching()
            assert advised(made + PAGE)


@asked_for
@pytest.mark.usefixtures("patient")
def test_copies_of_parts_are_advised_until_the_session_is_made() -> None:
    over = threading.Event()
    with mapped(4 * LEAST) as own, CopyAhead(lambda _: own, over) as copy, ExitStack() as stack:
        copy(4 * LEAST)
        copy.hand_over()
        threading.Event().wait(0.1)
        part = stack.enter_context(mapped(LEAST))
        until(lambda: advised(part + PAGE))
        over.set()
        no_longer_watching()
        assert not advised(stack.enter_context(mapped(LEAST)) + PAGE)


@asked_for
def test_old_memory_that_something_small_was_joined_to_is_left_as_it_is() -> None:
    with mapped(2 * LEAST) as made:
        _libc.mprotect(made + 2 * LEAST - PAGE, 2 * PAGE, mmap.PROT_READ)
        lookout = copies.Lookout(LEAST, 4 * LEAST)
        protected = mmap.PROT_READ | mmap.PROT_WRITE
        _libc.mprotect(made + 2 * LEAST - PAGE, PAGE, protected)
        assert lookout.look()
        assert (lookout.found, advised(made + PAGE)) == (0, False)


@asked_for
def test_a_copy_where_a_smaller_one_was_a_moment_ago_is_advised_whole() -> None:
    with mapped(2 * LEAST) as made:
        _libc.mprotect(made + LEAST - 3 * PAGE, LEAST + 4 * PAGE, mmap.PROT_READ)
        lookout = copies.Lookout(LEAST + LEAST // 2, 2 * LEAST)
        protected = mmap.PROT_READ | mmap.PROT_WRITE
        _libc.mprotect(made + LEAST - 3 * PAGE, LEAST + 4 * PAGE, protected)
        lookout.look()
        assert advised(made + PAGE)
        assert advised(made + 2 * LEAST - PAGE)


@asked_for
def test_stacks_are_left_as_they_are() -> None:
    with mapped(LEAST) as own, CopyAhead(lambda _: own, MADE) as copy:
        copy(LEAST)
        threading.Event().wait(0.1)
        with mapped(LEAST) as like_a_stack:
            _libc.mprotect(like_a_stack - PAGE, PAGE, 0)
            copy.hand_over()
            no_longer_watching()
            assert not advised(like_a_stack + PAGE)


@asked_for
def test_nothing_is_advised_for_a_blob_that_did_not_come() -> None:
    with mapped(LEAST) as own, ExitStack() as stack:
        with CopyAhead(lambda _: own, MADE) as copy:
            copy(LEAST)
            threading.Event().wait(0.1)
            assert watching()
            other = stack.enter_context(mapped(LEAST))
        no_longer_watching()
        assert not advised(other + PAGE)


@asked_for
@pytest.mark.usefixtures("patient")
def test_copies_of_weights_are_advised_as_they_come_until_all_have() -> None:
    with copies.CopiesMeanwhile([3, LEAST, 2 * LEAST]), ExitStack() as stack:
        threading.Event().wait(0.1)
        # neighbours may look like one
        made = [stack.enter_context(mapped(size)) for size in (LEAST - 3 * PAGE, LEAST, LEAST)]
        until(lambda: advised(made[1] + PAGE) and advised(made[2] + PAGE))
        assert watching()
        made.append(stack.enter_context(mapped(LEAST)))
        no_longer_watching()
        assert [advised(one + PAGE) for one in made] == [False, True, True, True]


@asked_for
@pytest.mark.usefixtures("patient")
def test_nobody_watches_for_copies_of_weights_once_their_session_is_made() -> None:
    with copies.CopiesMeanwhile([LEAST]):
        until(lambda: bool(watching()))
    no_longer_watching()


@asked_for
def test_nobody_watches_for_long_where_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_IN_VAIN", 3)
    with copies.CopiesMeanwhile([LEAST]):
        no_longer_watching()


class Zeros:
    """A large payload, on its way to whoever asks."""

    size = LEAST

    def read_into(self, target: int, size: int, /) -> None:
        ctypes.memset(target, 0, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""


@asked_for
@pytest.mark.usefixtures("patient")
def test_the_last_blob_that_was_asked_for_is_watched_until_the_session_is_made() -> None:
    source: Any = SimpleNamespace(reader=lambda _: Zeros(), reader_ahead=lambda _: Zeros())
    reader = BlobReader(source, {"a": "a", "b": "b"})
    with mapped(LEAST) as own:
        reader("a", lambda _: own)
        no_longer_watching()
        reader.expect()
        for name in "abab":
            reader(name, lambda _: own)
        until(lambda: watching() == 1)
        threading.Event().wait(0.05)
        assert watching() == 1
        reader.settle()
        no_longer_watching()


@asked_for
def test_nobody_watches_where_a_look_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_LONGEST", 0)
    with pytest.raises(OSError, match="too long"):
        copies.Lookout(LEAST, LEAST)
    with copies.CopiesMeanwhile([LEAST]), mapped(LEAST) as made:
        no_longer_watching()
        assert not advised(made + PAGE)


def test_nobody_watches_for_copies_of_small_weights() -> None:
    with copies.CopiesMeanwhile([LEAST - 1, 7]):
        assert not watching()


def test_nobody_watches_for_the_copy_of_a_small_blob() -> None:
    with mapped(LEAST) as own, CopyAhead(lambda _: own, MADE) as copy:
        assert copy(LEAST - 1) == own
        assert not watching()


def test_nobody_watches_where_a_session_is_made_with_nobody_else_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "version", lambda: (1, 30))
    with mapped(LEAST) as own, CopyAhead(lambda _: own, MADE) as copy:
        assert copy(LEAST) == own
        assert not watching()


@pytest.mark.parametrize(
    ("now", "before", "new"),
    [
        ((1, 4), [], [(1, 4)]),
        ((1, 4), [(1, 4)], []),
        ((1, 9), [(1, 4)], [(4, 9)]),
        ((1, 9), [(4, 9)], [(1, 4)]),
        ((1, 9), [(3, 4), (6, 7)], [(1, 3), (4, 6), (7, 9)]),
        ((1, 4), [(0, 6)], []),
        ((5, 9), [(0, 6)], [(6, 9)]),
        ((4, 6), [(1, 4), (6, 9)], [(4, 6)]),
    ],
)
def test_what_is_new_is_told_from_what_it_was_joined_with(
    now: tuple[int, int], before: list[tuple[int, int]], new: list[tuple[int, int]]
) -> None:
    assert list(new_in(Stretch(*now), [Stretch(*each) for each in before])) == new
