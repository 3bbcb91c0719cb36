"""Weights are packed in parallel unless somebody chose how."""

from __future__ import annotations

import pytest

from sealcar.ort import packing, runtime


def test_weights_are_packed_in_parallel_where_nothing_is_set() -> None:
    options = runtime.onnxruntime().SessionOptions()
    packing.prefer_parallel(options)
    assert options.get_session_config_entry(packing.PARALLEL) == "1"


@pytest.mark.parametrize("chosen", ["0", "1"])
def test_what_was_chosen_stays(chosen: str) -> None:
    options = runtime.onnxruntime().SessionOptions()
    options.add_session_config_entry(packing.PARALLEL, chosen)
    packing.prefer_parallel(options)
    assert options.get_session_config_entry(packing.PARALLEL) == chosen
