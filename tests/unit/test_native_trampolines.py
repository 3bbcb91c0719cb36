"""Whatever Python does or leaves out, the runtime gets a status that is right."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import pytest
from support import natives
from support.natives import POINTER, code_and_text, entry

from sealcar.ort import abi
from sealcar.ort.adapters.entries import READ, WRITE, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar.ort.runtime import Untyped

SIZE: Final = ctypes.c_size_t
_ALLOC: Final = ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)
_FREE: Final = ctypes.CFUNCTYPE(None, POINTER, POINTER)


class Allocator(ctypes.Structure):
    """The runtime's allocator, with a record of what it gave and what came back."""

    _fields_ = (("version", ctypes.c_uint32), ("alloc", _ALLOC), ("free", _FREE))

    def __init__(self, *, empty: bool = False) -> None:
        super().__init__(32, _ALLOC(self._give), _FREE(self._take))
        self.empty = empty
        self.given: list[Untyped] = []
        self.returned: list[bytes] = []

    def _give(self, _self: int, size: int) -> int | None:
        if self.empty:
            return None
        self.given.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.given[-1])

    def _take(self, _self: int, address: int) -> None:
        assert address == ctypes.addressof(self.given[-1])
        self.returned.append(self.given[-1].raw)


class Native:
    """A copy of the library, bound to functions of a test."""

    def __init__(self, folder: Path) -> None:
        self.library = natives.private_copy(folder)
        self._kept: list[Untyped] = []

    def bind(
        self,
        read: Callable[[int, bytes, int, Untyped], None] | None = None,
        write: Callable[[int, bytes, int, int, Untyped], None] | None = None,
    ) -> None:
        self._kept = [WRITE(write or _unexpected), READ(read or _unexpected)]
        addresses = [ctypes.cast(function, POINTER) for function in self._kept]
        assert self.library.sealcar_bind(abi.the_runtime().base, *addresses, None, None) == 0

    def read(self, allocator: Allocator) -> tuple[int | None, int | None, int]:
        buffer, size = POINTER(0xDEAD), SIZE(77)
        call = entry(self.library, "sealcar_read", POINTER, ctypes.c_char_p, *(POINTER,) * 3)
        status = call(5, b"blob", ctypes.byref(allocator), ctypes.byref(buffer), ctypes.byref(size))
        return status, buffer.value, size.value

    def write(self, name: bytes | None, data: bytes | None, size: int) -> int | None:
        call = entry(self.library, "sealcar_write", POINTER, ctypes.c_char_p, ctypes.c_char_p, SIZE)
        status: int | None = call(5, name, data, size)
        return status


def _unexpected(*_arguments: Untyped) -> None:
    raise AssertionError


@pytest.fixture
def native(tmp_path: Path) -> Native:
    return Native(tmp_path)


def test_a_finished_read_hands_the_filled_buffer_over(native: Native) -> None:
    def read(state: int, name: bytes, io: int, outcome: Untyped) -> None:
        assert (state, name) == (5, b"blob")
        ctypes.memmove(native.library.sealcar_allocate(io, 6), b"sealed", 6)
        outcome[0].done = 1

    native.bind(read)
    allocator = Allocator()
    status, address, size = native.read(allocator)
    assert status is None
    assert size == 6
    assert address == ctypes.addressof(allocator.given[0])
    assert allocator.given[0].raw == b"sealed"
    assert allocator.returned == []


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (b"", 0, (1, "sealcar's read callback failed")),
        (b"no such blob", 3, (3, "no such blob")),
        (b"x" * 481, -7, (1, "x" * 480)),
    ],
)
def test_a_failed_read_wipes_and_frees_what_it_got(
    native: Native, text: bytes, code: int, told: tuple[int, str]
) -> None:
    def read(_state: int, _name: bytes, io: int, outcome: Untyped) -> None:
        ctypes.memmove(native.library.sealcar_allocate(io, 6), b"secret", 6)
        ctypes.memmove(ctypes.addressof(outcome[0]) + Outcome.text.offset, text, len(text))
        outcome[0].code = code

    native.bind(read)
    allocator = Allocator()
    status, address, size = native.read(allocator)
    assert code_and_text(status) == told
    assert (address, size) == (None, 0)
    assert allocator.returned == [bytes(6)]


def test_a_read_that_claims_success_without_a_buffer_failed(native: Native) -> None:
    def read(_state: int, _name: bytes, _io: int, outcome: Untyped) -> None:
        outcome[0].done = 1

    native.bind(read)
    status, address, size = native.read(Allocator())
    assert code_and_text(status) == (1, "sealcar's read callback failed")
    assert (address, size) == (None, 0)


@pytest.mark.parametrize("size", [0, 1 << 63, (1 << 64) - 1])
def test_no_memory_of_an_impossible_size(native: Native, size: int) -> None:
    got: list[int | None] = []

    def read(_state: int, _name: bytes, io: int, _outcome: Untyped) -> None:
        got.append(native.library.sealcar_allocate(io, size))

    native.bind(read)
    allocator = Allocator()
    assert code_and_text(native.read(allocator)[0])
    assert got == [None]
    assert allocator.given == []


def test_memory_is_given_once(native: Native) -> None:
    got: list[int | None] = []

    def read(_state: int, _name: bytes, io: int, outcome: Untyped) -> None:
        got.extend(native.library.sealcar_allocate(io, 8) for _ in range(2))
        outcome[0].done = 1

    native.bind(read)
    allocator = Allocator()
    assert native.read(allocator)[0] is None
    assert got[1] is None
    assert len(allocator.given) == 1


def test_an_allocator_without_memory_is_a_failure(native: Native) -> None:
    def read(_state: int, _name: bytes, io: int, outcome: Untyped) -> None:
        assert native.library.sealcar_allocate(io, 8) is None
        outcome[0].done = 1

    native.bind(read)
    assert code_and_text(native.read(Allocator(empty=True))[0])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_function_that_raises_into_the_trampoline_is_a_failure(
    native: Native, error: type[BaseException]
) -> None:
    def read(_state: int, _name: bytes, io: int, _outcome: Untyped) -> None:
        ctypes.memmove(native.library.sealcar_allocate(io, 6), b"secret", 6)
        raise error

    def write(*_arguments: Untyped) -> None:
        raise error

    native.bind(read, write)
    allocator = Allocator()
    assert code_and_text(native.read(allocator)[0]) == (1, "sealcar's read callback failed")
    assert allocator.returned == [bytes(6)]
    assert code_and_text(native.write(b"blob", b"data", 4)) == (
        1,
        "sealcar's write callback failed",
    )


def test_a_finished_write_is_a_success(native: Native) -> None:
    got: list[tuple[int, bytes, bytes]] = []

    def write(state: int, name: bytes, address: int, size: int, outcome: Untyped) -> None:
        got.append((state, name, ctypes.string_at(address, size)))
        outcome[0].done = 1

    native.bind(write=write)
    assert native.write(b"blob", b"sealed", 6) is None
    assert got == [(5, b"blob", b"sealed")]


@pytest.mark.parametrize(("name", "data"), [(None, b"data"), (b"blob", None)])
def test_a_write_without_name_or_data_never_reaches_python(
    native: Native, name: bytes | None, data: bytes | None
) -> None:
    native.bind()
    code, text = code_and_text(native.write(name, data, 4))
    assert code == 2
    assert "no name or no data" in text


def test_a_runtime_that_is_too_old_is_not_bound(native: Native) -> None:
    assert native.library.sealcar_bind(None, None, None, None, None) == -1
