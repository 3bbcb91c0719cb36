"""A captured pointer belongs to the thread that captured, and is taken once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support import natives
from support.natives import POINTER, entry

from sealcar.ort import abi, runtime

if TYPE_CHECKING:
    from pathlib import Path


def test_threads_that_capture_together_get_their_own(tmp_path: Path) -> None:
    library = natives.private_copy(tmp_path)
    register = entry(library, "RegisterCustomOps", POINTER, POINTER)
    together = threading.Barrier(8)

    def capture(number: int) -> tuple[int, int]:
        together.wait()
        assert register(number, number + 100) is None
        together.wait()
        return library.sealcar_captured_options(), library.sealcar_captured_base()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(capture, range(1, 9))) == [(n, n + 100) for n in range(1, 9)]


def test_a_pointer_is_taken_once(tmp_path: Path) -> None:
    library = natives.private_copy(tmp_path)
    entry(library, "RegisterCustomOps", POINTER, POINTER)(1, 2)
    assert library.sealcar_captured_options() == 1
    assert library.sealcar_captured_options() is None
    assert library.sealcar_captured_base() == 2
    assert library.sealcar_captured_base() is None


def test_every_object_of_options_has_its_own_address() -> None:
    pytest.importorskip("onnxruntime")
    options = [runtime.onnxruntime().SessionOptions() for _ in range(8)]
    addresses = [abi.address_of(each) for each in options]
    assert len(set(addresses)) == 8
    assert [abi.address_of(each) for each in options] == addresses
