from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar.errors import InternalError
from sealcar_server.sealing.encoding import enc

FIELDS = st.lists(st.binary(max_size=6), max_size=4)


def test_it_is_length_and_bytes_of_each_field() -> None:
    assert enc() == b""
    assert enc("é", b"\0", 1) == b"\0\0\0\2\xc3\xa9\0\0\0\1\0\0\0\0\x08\0\0\0\0\0\0\0\1"


@given(FIELDS, FIELDS)
def test_different_fields_never_meet(one: list[bytes], other: list[bytes]) -> None:
    assert (enc(*one) == enc(*other)) == (one == other)


@given(FIELDS, FIELDS)
def test_what_follows_is_never_taken_for_a_field(one: list[bytes], other: list[bytes]) -> None:
    assert enc(*one) + enc(*other) == enc(*one, *other)


@pytest.mark.parametrize("field", [-1, 1 << 64, "\ud800"])
def test_what_has_no_encoding_is_refused(field: str | int) -> None:
    with pytest.raises(InternalError):
        enc(field)
