from __future__ import annotations

import ctypes

import pytest

from sealcar.errors import InvalidRequestError, WrongStateError
from sealcar.transfer.descriptors import Exported
from sealcar.transfer.memory import (
    PIECE,
    PrivateMemory,
    advise_huge,
    contains,
    copy,
    new_bytes,
    wipe,
)
from sealcar.transfer.payloads import BorrowedBuffer, MappedPayload


def mapped(data: bytes) -> MappedPayload:
    memory = PrivateMemory(len(data))
    ctypes.memmove(memory.address, data, len(data))
    memory.freeze()
    return MappedPayload(memory, b"identity")


def test_a_mapped_payload_is_read_only_page_aligned_and_its_own_size() -> None:
    with mapped(b"weights") as payload:
        assert bytes(payload.view) == b"weights"
        assert payload.view.readonly
        assert payload.size == 7
        assert payload.address % payload.alignment == 0
        assert ctypes.string_at(payload.address, payload.size) == b"weights"
        assert payload.owner is not None


def test_a_mapped_payload_can_not_be_closed_while_a_view_lives() -> None:
    payload = mapped(b"weights")
    view = payload.view[2:4]
    with pytest.raises(WrongStateError, match="views of it"):
        payload.close()
    assert bytes(view) == b"ig"
    view.release()
    payload.close()


def test_a_closed_mapped_payload_gives_no_address_and_no_view() -> None:
    payload = mapped(b"weights")
    payload.close()
    with pytest.raises(WrongStateError, match="closed"):
        _ = payload.address
    with pytest.raises(WrongStateError, match="closed"):
        _ = payload.view


def test_the_owner_keeps_the_bytes_when_the_payload_is_dropped() -> None:
    payload = mapped(b"weights")
    address, owner = payload.address, payload.owner
    del payload
    assert ctypes.string_at(address, 7) == b"weights"
    assert owner is not None


def test_an_empty_payload_can_be_mapped() -> None:
    with mapped(b"") as payload:
        assert payload.size == 0
        assert bytes(payload.view) == b""


def test_a_loan_that_has_ended_gives_no_address() -> None:
    owner = bytearray(b"lent")
    with Exported(owner) as exported:
        with BorrowedBuffer(exported.address, exported.size, owner) as lent:
            assert ctypes.string_at(lent.address, lent.size) == b"lent"
        with pytest.raises(WrongStateError, match="returned"):
            _ = lent.address


def test_an_exported_buffer_can_not_be_resized_meanwhile() -> None:
    buffer = bytearray(10)
    with Exported(buffer, writable=True) as exported:
        assert exported.size == 10
        with pytest.raises(BufferError):
            buffer.extend(b"more")
    buffer.extend(b"more")


@pytest.mark.parametrize(
    ("target", "writable"),
    [(b"read-only", True), ("text", False), (memoryview(bytes(8))[::2], False), (None, False)],
)
def test_what_is_no_fit_buffer_is_an_error_of_ours(target: object, writable: bool) -> None:  # noqa: FBT001  (parametrized)
    with pytest.raises(InvalidRequestError, match="buffer"):
        Exported(target, writable=writable)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("size", [0, 1, 100, 1 << 20])
def test_new_bytes_are_nobody_elses(size: int) -> None:
    zero, one = bytes(size), b"\x01" * size
    data = new_bytes(size)
    with Exported(data) as exported:
        ctypes.memset(exported.address, 1, size)
    assert data == one
    assert zero == bytes(size)
    assert bytes([0]) == b"\0", "not the interpreter's own objects"


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_copies_and_wipes_touch_exactly_what_they_should(size: int) -> None:
    source = bytes(range(1, 256)) * (size // 255 + 1)
    target = bytearray(size + 2)
    with Exported(source) as one, Exported(target, writable=True) as two:
        copy(two.address + 1, one.address, size)
        assert target == b"\0" + source[:size] + b"\0"
        advise_huge(two.address, len(target))
        assert target == b"\0" + source[:size] + b"\0"
        target[0] = target[-1] = 7
        wipe(two.address + 1, size)
    assert target == b"\7" + bytes(size) + b"\7"


@pytest.mark.parametrize("data", [b"", b"abab", b"abc", b"xabcx", b"\0" * PIECE + b"abc", b"ab\0c"])
def test_what_an_object_holds_is_found_wherever_it_is(data: bytes) -> None:
    assert contains(data, b"abc") == (b"abc" in data)
    # not a byte beyond its end
    assert not contains(memoryview(b"ab" + b"c")[:2].tobytes(), b"abc")
