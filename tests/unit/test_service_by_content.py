"""What bytes come to is made once, and what was refused is refused again."""

from __future__ import annotations

import pytest

from sealcar_server.service.by_content import ByContent


def test_equal_bytes_are_looked_at_once_and_others_for_themselves() -> None:
    asked: list[bytes] = []

    def made(data: bytes) -> int:
        asked.append(data)
        return len(data)

    known = ByContent(made)
    assert [known.of(data) for data in (b"a", b"bb", b"a", b"bb")] == [1, 2, 1, 2]
    assert asked == [b"a", b"bb"]


def test_what_is_refused_is_refused_each_time() -> None:
    known = ByContent(int)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            known.of(b"no number")
    assert known.of(b"7") == 7


def test_only_the_last_ones_that_were_asked_for_are_remembered() -> None:
    asked: list[bytes] = []
    known = ByContent(asked.append, most=2)
    for data in (b"1", b"2", b"1", b"3", b"1", b"2"):
        known.of(data)
    assert asked == [b"1", b"2", b"3", b"2"]
