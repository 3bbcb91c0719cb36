"""What the bench sees of files, mappings and processes: of real ones."""

from __future__ import annotations

import mmap
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from support import onnx_models

from sealcar.benching import caches, feeding, subjects, touching, usage
from sealcar.benching.clocks import Clock
from sealcar.benching.jobs import PARSED, PAYLOADS
from sealcar.benching.stage import server_installed
from sealcar.benching.watching import Closes
from sealcar.errors import InvalidRequestError
from sealcar.transfer import descriptors, named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SIZE = 5 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "weights.bin"
    made.write_bytes(os.urandom(_SIZE))
    return made


def test_a_file_leaves_the_page_cache_and_comes_back(file: Path) -> None:
    caches.warm([file])
    assert caches.cached(file) == 1
    if caches.drop([file]) > 0:
        pytest.skip("this file system keeps its files in memory")
    assert caches.cached(file) == 0
    caches.warm([file])
    assert caches.cached(file) == 1


def test_an_empty_file_is_where_it_should_be(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert caches.cached(empty) == 1
    assert caches.drop([empty]) == 0
    assert caches.below(tmp_path) == [empty]


def test_a_file_is_complete_when_somebody_closed_it(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    with Closes([str(file), str(other)]) as closes:
        file.read_bytes()
        other.read_bytes()
    assert closes.complete == max(closes.last.values())
    assert closes.sizes == {str(file): _SIZE, str(other): 0}
    with Closes([str(file), str(other)]) as closes:
        file.read_bytes()
    assert closes.complete is None
    with Closes([]) as closes:
        pass
    assert closes.complete is None


def test_mapped_files_are_found_and_every_page_touched(file: Path) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as memory:
        found = list(touching.mapped({str(file)}))
        assert [size for _, size in found] == [_SIZE]
        before = usage.counters(os.getpid()).minor_faults
        assert touching.touch(*found[0]) == _SIZE // mmap.PAGESIZE
        assert usage.counters(os.getpid()).minor_faults > before
        assert memory[:1]
    assert list(touching.mapped({str(file)})) == []


@pytest.mark.parametrize("name", ["sealcar-segment", named._NAME])
def test_memory_in_which_weights_lie_is_found_mapped(name: str) -> None:
    descriptor = descriptors.memory(name, _SIZE)
    with os.fdopen(descriptor, "rb") as file, mmap.mmap(file.fileno(), _SIZE, prot=mmap.PROT_READ):
        assert [size for _, size in touching.mapped(())] == [_SIZE]
    assert list(touching.mapped(())) == []


def test_the_most_memory_is_seen_while_it_is_there() -> None:
    before = usage.memory(os.getpid())
    with usage.Peaks({"me": os.getpid()}) as peaks, mmap.mmap(-1, _SIZE) as block:
        block.write(bytes(_SIZE))
        peaks.look()
    assert before is not None
    assert peaks.found["me"].private > before.private + _SIZE // 2
    assert usage.busy_seconds() >= usage.counters(os.getpid()).busy > 0


def inputs(**shapes: tuple[str, list[Any]]) -> Any:  # noqa: ANN401  (like a session)
    made = [SimpleNamespace(name=name, type=t, shape=s) for name, (t, s) in shapes.items()]
    return SimpleNamespace(get_inputs=lambda: made)


def test_inputs_are_made_for_every_type_and_named_dimensions_are_what_is_asked() -> None:
    session = inputs(
        x=("tensor(float)", ["batch", 3, None]),
        i=("tensor(int64)", [2]),
        h=("tensor(float16)", [1]),
        b=("tensor(bool)", []),
    )
    made: Mapping[str, Any] = feeding.feed(session, {"batch": 4}, "")
    shapes = {name: (value.dtype.str[1:], value.shape) for name, value in made.items()}
    assert shapes == {"x": ("f4", (4, 3, 1)), "i": ("i8", (2,)), "h": ("f2", (1,)), "b": ("b1", ())}
    assert not made["i"].any()


def test_an_input_that_cant_be_made_up_is_named_with_the_remedy() -> None:
    for kind, shape in (("tensor(string)", [1]), ("tensor(float)", [1 << 30])):
        with pytest.raises(InvalidRequestError, match=r"'x'.*--input"):
            feeding.feed(inputs(x=(kind, shape)), {}, "")


def test_inputs_come_out_of_a_file_and_what_is_none_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones(3, np.float32))
    made = feeding.feed(inputs(), {}, str(tmp_path / "in.npz"))
    assert made["x"].tolist() == [1, 1, 1]
    (tmp_path / "bad.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidRequestError, match=r"no \.npz"):
        feeding.feed(inputs(), {}, str(tmp_path / "bad.npz"))


def test_an_answer_is_a_number_for_each_output() -> None:
    outputs = [np.array([1.0, -2.0]), np.array(["text"], object), [1], np.array([np.nan, 4.0])]
    assert feeding.condensed(outputs) == (3.0, 0.0, 0.0, 4.0)


def test_a_clock_sees_a_session_made_in_two_steps_and_what_is_lent_to_it() -> None:
    class Session:
        def initialize_session(self) -> str:
            return "ready"

    class Options:
        def add_initializer(self, _name: str, _value: object) -> None:
            pass

    clock = Clock()
    clock.start()
    clock.watch_runtime(SimpleNamespace(InferenceSession=Session, SessionOptions=Options))
    assert Session().initialize_session() == "ready"
    Options().add_initializer("w", SimpleNamespace(tensor_size_in_bytes=lambda: 12))
    clock.arrived(30)
    assert set(clock.moments) == {PARSED, PAYLOADS}
    assert (clock.traffic().borrowed, clock.traffic().copied) == (12, 30)
    clock.not_yet()
    assert set(clock.moments) == {PARSED}


def test_a_model_is_found_with_what_lies_beside_it_and_nothing_else(tmp_path: Path) -> None:
    made = onnx_models.model(onnx_models.located("w.bin"))
    onnx.save(made, tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "m.onnx.data").write_bytes(b"somebody else's")
    found = subjects.find(tmp_path / "m.onnx", None, None)
    assert found.files == (tmp_path / "w.bin",)
    assert found.weights == 16
    assert set(found.digests()) == {"m.onnx", "w.bin"}
    with pytest.raises(InvalidRequestError, match="are for packages"):
        subjects.find(tmp_path / "m.onnx", "main", None)


def test_this_installation_has_a_daemon() -> None:
    assert server_installed()


@pytest.mark.parametrize(("size", "shared"), [(4 << 20, True), (1 << 20, False)])
def test_workers_share_a_model_that_the_runtime_uses_where_it_lies(
    tmp_path: Path, size: int, *, shared: bool
) -> None:
    path = tmp_path / "m.ort"
    path.write_bytes(b"\x1c\0\0\0ORTM" + bytes(size - 8))
    found = subjects.find(path, None, None)
    assert found.in_place == ("m.ort" if shared else "")
    assert found.weights == (size if shared else 0)
