from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar.errors import DamagedError, InvalidRequestError, NotAuthenticError, TruncatedError
from sealcar_server.sealing.layout import (
    FIRST_PIECE,
    HEADER,
    MAX_SEGMENTS,
    PIECE,
    SEGMENT,
    TAG,
    Layout,
    Params,
)

PARAMS = st.builds(
    Params, segment=st.integers(58, 5000), derived_key=st.sampled_from([16, 32])
) | st.just(Params())


def test_the_product_s_numbers_are_those_of_the_format() -> None:
    assert (SEGMENT, HEADER, TAG) == (1_048_576, 40, 16)
    assert (FIRST_PIECE, PIECE) == (1_048_520, 1_048_560)


@given(PARAMS, st.integers(0, 1 << 36))
def test_a_layout_follows_from_either_size(params: Params, size: int) -> None:
    layout = Layout.of_plain(size, params)
    assert Layout.of_file(layout.file_size, params) == layout


@given(PARAMS, st.integers(0, 200_000))
def test_spans_cover_file_and_plaintext_without_gap_or_overlap(params: Params, size: int) -> None:
    layout = Layout.of_plain(size, params)
    at, plain_at = params.header, 0
    for index in range(layout.count):
        span = layout.span(index)
        assert (span.at, span.plain_at) == (at, plain_at)
        assert span.size == span.plain_size + TAG
        # exactly the segments' boundaries are multiples of their size
        assert index == 0 or span.at == index * params.segment
        at, plain_at = at + span.size, plain_at + span.plain_size
    assert (at, plain_at) == (layout.file_size, size)


@given(PARAMS, st.integers(1, 200_000), st.data())
def test_a_byte_lies_in_the_segment_that_is_named(
    params: Params, size: int, data: st.DataObject
) -> None:
    layout = Layout.of_plain(size, params)
    offset = data.draw(st.integers(0, size - 1))
    span = layout.span(layout.segment_of(offset))
    assert span.plain_at <= offset < span.plain_at + span.plain_size


@given(PARAMS, st.integers(0, 200_000))
def test_every_file_size_is_one_plaintext_s_or_refused(params: Params, size: int) -> None:
    try:
        layout = Layout.of_file(size, params)
    except DamagedError:
        tail = size % params.segment
        assert size < params.header + TAG or 0 < tail <= TAG
    else:
        assert layout.file_size == size
        assert layout.count == 1 or layout.span(layout.count - 1).plain_size > 0


@pytest.mark.parametrize("size", [0, 1, 40, 55])
def test_a_file_too_short_for_a_tag_is_refused_as_truncated(size: int) -> None:
    with pytest.raises(TruncatedError, match="56"):
        Layout.of_file(size)


@pytest.mark.parametrize("tail", [1, 15, 16])
def test_an_empty_or_partial_last_segment_is_refused(tail: int) -> None:
    with pytest.raises(NotAuthenticError, match="no writer"):
        Layout.of_file(3 * SEGMENT + tail)


def test_the_nonce_s_counter_bounds_the_size() -> None:
    largest = FIRST_PIECE + (MAX_SEGMENTS - 1) * PIECE
    assert Layout.of_plain(largest).count == MAX_SEGMENTS
    assert Layout.of_file(MAX_SEGMENTS * SEGMENT).plain_size == largest
    with pytest.raises(InvalidRequestError):
        Layout.of_plain(largest + 1)
    with pytest.raises(NotAuthenticError):
        Layout.of_file(MAX_SEGMENTS * SEGMENT + 100)


def test_negative_sizes_and_foreign_segments_are_refused() -> None:
    with pytest.raises(InvalidRequestError):
        Layout.of_plain(-1)
    for index in (-1, 2):
        with pytest.raises(InvalidRequestError, match="among 2"):
            Layout.of_plain(FIRST_PIECE + 1).span(index)
