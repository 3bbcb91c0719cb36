"""Whoever can write to the store can change no payload unnoticed, nor see a byte served of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, Running
from support.tampering import (
    ONNX,
    edit,
    flip,
    read_refused,
    refused,
    swap,
)

from sealcar.errors import (
    NotAuthenticError,
    TruncatedError,
)
from sealcar_server.sealing.layout import HEADER, SEGMENT
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from pathlib import Path


def test_an_untouched_store_is_served(root: Path) -> None:
    with Running(root) as running:
        assert running.read(ONNX) == MODEL
        assert running.packages.verify(ME, "ocr", "1", 0, lambda *_: None).payloads == 4


def test_a_payload_replaced_by_its_plain_bytes_is_refused(root: Path, generation: Path) -> None:
    (generation / "det/onnx/model.onnx").write_bytes(MODEL)
    error = refused(root)
    assert isinstance(error, TruncatedError | NotAuthenticError)
    assert (error.place.payload, error.place.component) == ("model.onnx", "det")


def test_a_plain_payload_of_the_sealed_size_is_refused(root: Path, generation: Path) -> None:
    path = generation / "det/onnx/model.onnx"
    path.write_bytes((MODEL * 2)[: path.stat().st_size])
    assert isinstance(refused(root), NotAuthenticError)


@pytest.mark.parametrize(
    "other", ["det/onnx/second.onnx", "det/qnn/model.onnx", "rec/onnx/model.onnx"]
)
def test_two_swapped_payloads_are_refused(root: Path, generation: Path, other: str) -> None:
    swap(generation / "det/onnx/model.onnx", generation / other)
    error = refused(root)
    assert isinstance(error, NotAuthenticError)
    assert "commits to" in str(error)
    component, variant, name = other.split("/")
    assert isinstance(
        refused(root, ScopeKey("ocr", "1", component, variant), name), NotAuthenticError
    )


def test_the_payload_of_another_package_is_refused(root: Path, generation: Path) -> None:
    foreign = root / "store/det-only/1/g/1/det/onnx/model.onnx"
    shutil.copy(foreign, generation / "det/onnx/model.onnx")
    assert isinstance(refused(root), NotAuthenticError)


def test_reordered_segments_are_refused(root: Path) -> None:
    # both are full, and neither is the first, which shares its place with the header
    def change(data: bytearray) -> None:
        second, third = data[SEGMENT : 2 * SEGMENT], data[2 * SEGMENT : 3 * SEGMENT]
        data[SEGMENT : 2 * SEGMENT], data[2 * SEGMENT : 3 * SEGMENT] = third, second

    with Running(root) as running:
        running.import_("long", payloads={("det", "onnx", "model.onnx"): MODEL * 2})
    edit(root / "store/long/1/g/1/det/onnx/model.onnx", change)
    with Running(root) as running:
        scope = ScopeKey("long", "1", "det", "onnx")
        with (
            running.payloads.read(ME, scope, "model.onnx", running.scratch) as source,
            pytest.raises(NotAuthenticError) as caught,
        ):
            source.reader.read_segment(1, running.scratch)
        assert not any(running.scratch.plain)
    assert caught.value.place.offset == SEGMENT - 16 - HEADER


@pytest.mark.parametrize("size", [0, 1, 55, 56, SEGMENT, 2 * SEGMENT, -1])
def test_a_truncated_payload_is_refused(root: Path, generation: Path, size: int) -> None:
    edit(generation / "det/onnx/model.onnx", lambda data: data.__delitem__(slice(size, None)))
    error = refused(root)
    assert isinstance(error, TruncatedError)
    assert error.place.payload == "model.onnx"


@pytest.mark.parametrize("size", [1, 16, 17, SEGMENT])
def test_an_extended_payload_is_refused(root: Path, generation: Path, size: int) -> None:
    edit(generation / "det/onnx/model.onnx", lambda data: data.extend(bytes(size)))
    assert isinstance(refused(root), TruncatedError | NotAuthenticError)


def test_a_missing_payload_is_refused(root: Path, generation: Path) -> None:
    (generation / "det/onnx/model.onnx").unlink()
    error = refused(root)
    assert isinstance(error, TruncatedError)
    assert "missing" in str(error)


@pytest.mark.parametrize("at", [0, 1, 20, HEADER - 1])
def test_a_flipped_bit_in_the_header_is_refused(root: Path, generation: Path, at: int) -> None:
    flip(generation / "det/onnx/model.onnx", at)
    assert isinstance(refused(root), NotAuthenticError)


@pytest.mark.parametrize("at", [-1, -16, -17])
def test_a_flipped_bit_in_the_last_segment_is_refused_when_it_is_opened(
    root: Path, generation: Path, at: int
) -> None:
    flip(generation / "det/onnx/model.onnx", at)
    assert isinstance(refused(root), NotAuthenticError)


@pytest.mark.parametrize(
    ("at", "index"), [(HEADER, 0), (SEGMENT - 1, 0), (SEGMENT, 1), (2 * SEGMENT - 16, 1)]
)
def test_a_flipped_bit_in_the_middle_is_refused_before_its_segment_is_visible(
    root: Path, generation: Path, at: int, index: int
) -> None:
    flip(generation / "det/onnx/model.onnx", at)
    error = read_refused(root, index)
    assert isinstance(error, NotAuthenticError)
    assert error.place.length is not None


def test_a_payload_that_is_open_survives_what_happens_to_its_file(root: Path) -> None:
    path = root / "store/ocr/1/g/1/det/onnx/model.onnx"
    with Running(root) as running:
        with running.payloads.read(ME, ONNX, "model.onnx", running.scratch) as source:
            path.unlink()
            path.write_bytes(MODEL)
            span = source.reader.read_segment(0, running.scratch)
            assert running.scratch.plain[: span.plain_size] == MODEL[: span.plain_size]
        # the daemon remembers the package, and checks the payload again all the same
        with pytest.raises((TruncatedError, NotAuthenticError)):
            running.read(ONNX)
