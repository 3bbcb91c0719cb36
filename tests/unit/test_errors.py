"""Errors keep their class, place and retry across the wire."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealcar import details, errors
from sealcar.v1 import common_pb2 as pb

LEAVES = sorted(details.REASONS, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", LEAVES)
def test_an_error_is_the_same_class_on_both_sides(kind: type[errors.SealcarError]) -> None:
    place = errors.Place("open", "ocr", "1", "det", "cpu", 3, "w.bin", 0, 10)
    sent = kind("no luck", place=place, retry_after=0.25)
    wire = pb.ErrorDetail.FromString(details.to_detail(sent).SerializeToString())
    got = details.from_detail(wire)
    assert type(got) is kind
    assert (got.message, got.place, got.retry_after) == ("no luck", place, 0.25)


def test_every_reason_has_a_class_and_the_other_way_round() -> None:
    reasons = {value for value in pb.ErrorReason.values() if value}
    assert set(details.REASONS.values()) == reasons


def test_a_reason_of_a_newer_peer_keeps_its_branch() -> None:
    got = details.from_detail(pb.ErrorDetail(reason=29, message="new"))  # type: ignore[arg-type]
    assert type(got) is errors.DamagedError
    got = details.from_detail(pb.ErrorDetail(reason=99, message="new"))  # type: ignore[arg-type]
    assert type(got) is errors.InternalError


def test_an_error_of_one_side_only_is_internal_to_the_other() -> None:
    assert details.to_detail(errors.ConfigurationError("x")).reason == pb.ERROR_REASON_INTERNAL


def test_an_outer_layer_adds_to_the_place_and_never_overrides() -> None:
    error = errors.NotFoundError("gone", place=errors.Place(phase="open", package="ocr"))
    same = error.at(phase="load", package="other", component="det", offset=0)
    assert same is error
    assert error.place == errors.Place(phase="open", package="ocr", component="det", offset=0)


def test_the_text_names_phase_address_and_range() -> None:
    place = errors.Place("read", "ocr", "1", "det", "cpu", 3, "w.bin", 5, 10)
    assert str(errors.TruncatedError("too short", place=place)) == (
        "read: ocr@1/det/cpu/w.bin [5, +10]: too short"
    )
    assert str(errors.TruncatedError("too short")) == "too short"


def test_every_class_has_an_exit_code_of_its_own_branch() -> None:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.SealcarError):
            assert 1 <= kind.exit_code <= 8


@given(st.builds(errors.Place, phase=st.text(), package=st.text(), offset=st.integers(0, 9)))
def test_a_place_always_prints(place: errors.Place) -> None:
    assert isinstance(str(place), str)
