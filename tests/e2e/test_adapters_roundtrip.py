"""Blobs through the callbacks of real plugins, on whichever interface the runtime offers."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from support import eps, models
from support.blobs import BlobStore, assert_close, compiled, loaded, on_cpu, session

from sealcar.ort import callback_api, runtime
from sealcar.ort.adapters import registrar
from sealcar.ort.callbacks import Compilation, Location

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.parametrize("name", eps.NAMES)
READS = {"qnn": 1, "openvino": 3}


def test_the_interface_is_the_one_of_this_runtime(name: str) -> None:
    eps.require(name)
    assert callback_api() == ("stable" if runtime.version() >= (1, 31) else "experimental")


def test_three_partitions_are_one_write_and_load_from_the_same_blob(name: str) -> None:
    model = models.split_model()
    store = compiled(name, model)
    assert len(store.writes) == 1
    assert models.blob_names(bytes(store.model)) == set(store.blobs)
    assert models.context_count(bytes(store.model)) == 3
    assert_close(session(name, store).run(None, models.sample_input())[0], on_cpu(model))
    assert len(store.reads) == READS[name]
    assert set(store.reads) == set(store.blobs)


def test_the_stem_names_the_blobs(name: str) -> None:
    (blob,) = compiled(name, models.whole_model(), stem="det-v2").blobs
    assert blob.startswith("det-v2_")


def test_embedded_blobs_need_no_callback(name: str) -> None:
    model = models.split_model()
    store = compiled(name, model, embed=True)
    assert store.writes == []
    assert models.blob_names(bytes(store.model)) == set()
    options = eps.require(name).options()
    plain = loaded(bytes(store.model), options)
    assert_close(plain.run(None, models.sample_input())[0], on_cpu(model))


def test_a_source_with_external_weights_compiles_from_memory(name: str) -> None:
    model, weights = models.external_model()
    store = compiled(name, model, sources={models.EXTERNAL_FILE: weights})
    assert_close(
        session(name, store).run(None, models.sample_input())[0], on_cpu(models.split_model())
    )


def test_what_is_lent_to_a_compilation_is_gone_from_the_options(name: str) -> None:
    model, weights = models.external_model()
    store = BlobStore()
    options = eps.require(name).options()
    sources = {models.EXTERNAL_FILE: weights}
    registrar().compile(options, Compilation(model, store.sink, write=store.write, sources=sources))
    with pytest.raises(Exception, match=r"weights\.bin"):
        loaded(model, options)


def test_initializers_that_are_left_go_where_the_function_says(name: str) -> None:
    left = bytearray()

    def place(initializer: str, address: int, size: int) -> Location | None:
        if initializer != models.TAIL:
            return None
        left.extend(ctypes.string_at(address, size))
        return Location("left.bin", 0, size)

    model = models.tail_model()
    store = compiled(name, model, location=place)
    assert len(left) == models.WIDTH * 4
    options = eps.require(name).options()
    registrar().set_read(options, store.read)
    options.add_external_initializers_from_files_in_memory(["left.bin"], [bytes(left)], [len(left)])
    ready = loaded(bytes(store.model), options)
    assert_close(ready.run(None, models.sample_input())[0], on_cpu(model))


def test_no_file_appears_while_compiling_and_loading(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = compiled(name, models.split_model())
    session(name, store)
    assert list(tmp_path.iterdir()) == []


def test_a_plain_file_of_the_blobs_name_is_never_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = compiled(name, models.split_model())
    for blob, data in store.blobs.items():
        (tmp_path / blob).write_bytes(data)
    store.blobs.clear()
    with pytest.raises(Exception, match="KeyError in the callback for blob"):
        session(name, store)


def test_sessions_load_and_compile_in_several_threads(name: str) -> None:
    eps.require(name)
    wanted = [on_cpu(models.split_model(seed=seed)) for seed in range(4)]

    def work(seed: int) -> tuple[Any, set[int]]:
        store = compiled(name, models.split_model(seed=seed))
        return session(name, store).run(None, models.sample_input())[0], store.threads

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for (got, threads), want in zip(results, wanted, strict=True):
        assert_close(got, want)
        assert threads


def test_a_cleared_callback_is_never_called(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = compiled(name, models.split_model())
    options = eps.require(name).options()
    registrar().set_read(options, store.read)
    registrar().clear_read(options)
    with pytest.raises(Exception, match=r".+"):
        loaded(bytes(store.model), options)
    assert store.reads == []


def test_a_second_callback_replaces_the_first(name: str) -> None:
    store = compiled(name, models.split_model())
    other = BlobStore()
    options = eps.require(name).options()
    registrar().set_read(options, other.read)
    registrar().set_read(options, store.read)
    loaded(bytes(store.model), options)
    assert other.reads == []
    assert store.reads
