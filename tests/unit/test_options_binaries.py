"""What the installed binaries know and the tables don't: a newer plugin shows itself here.

A failure names the new options: look up what each does, and add a row or an entry to the lists.
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest

from sealcar.ort.options import tables

PACKAGES = Path(sysconfig.get_path("purelib"))
# from the parsing of options up to what follows it in the binary's text
REGIONS = {
    "qnn": (
        "onnxruntime_qnn/libonnxruntime_providers_qnn.so",
        [
            (b"enable_htp_prepare_only\0", b"QNN SetupBackend"),
            (b"qnn_saver_path\0", b"qnn.htp_perf"),
        ],
    ),
    "openvino": (
        "onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so",
        [(b"enable_causallm\0", b"code 0x(")],
    ),
}
SHAPE = re.compile(rb"(?<=\0)[a-z0-9]+(?:_[a-z0-9]+)+(?=\0)")
# words of the same shape in the same place that are no options: values and file names
WORDS = {
    "qnn": {
        "critical_plus",
        "extreme_power_saver",
        "high_plus",
        "high_power_saver",
        "low_balanced",
        "low_power_saver",
        "normal_high",
        "normal_low",
        "sustained_high_performance",
    },
    "openvino": set(),
}


def words(name: str) -> set[str]:
    file, regions = REGIONS[name]
    path = PACKAGES / file
    if not path.exists():
        pytest.skip(f"{file} isn't installed")
    data = path.read_bytes()
    found: set[str] = set()
    for begin, end in regions:
        start = data.index(begin)
        text = data[start : data.index(end, start)]
        found |= {
            word.decode() for word in re.findall(rb"(?<=\0)[a-z0-9]+(?:_[a-z0-9]+)+(?=\0)", text)
        }
    return found - WORDS[name]


@pytest.mark.parametrize("name", REGIONS)
def test_every_option_like_word_of_a_plugin_is_in_its_table(name: str) -> None:
    table = tables()[name]
    assert {word for word in words(name) if not table.knows(word)} == set()


@pytest.mark.parametrize("name", REGIONS)
def test_the_search_does_find_the_options(name: str) -> None:
    assert len(words(name) & tables()[name].refused.keys()) > 1


def test_every_configuration_key_of_the_runtime_is_in_its_table() -> None:
    (binary,) = (PACKAGES / "onnxruntime/capi").glob("onnxruntime_pybind11_state*.so")
    # not what ends with an underscore: compilers cut long keys in two
    shape = rb"(?<=\0)(?:session|optimization|mlas|memory|ep)\.[a-z0-9_.]*[a-z0-9](?=\0)"
    keys = {word.decode() for word in re.findall(shape, binary.read_bytes())}
    session = tables()["session"]
    known = {key for key in keys if session.knows(key) or key.startswith(session.caller_prefixes)}
    assert "session.optimized_model_filepath" in keys
    assert keys - known == set()
