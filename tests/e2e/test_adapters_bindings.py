"""Without the native part, 1.31 and later work through Python's own bindings."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest
from support import eps, models
from support.blobs import BlobStore, assert_close, loaded, on_cpu

from sealcar.errors import NotFoundError, RuntimeSupportError
from sealcar.ort import runtime
from sealcar.ort.abi import error_classes
from sealcar.ort.adapters import choose
from sealcar.ort.adapters.bindings import BindingsRegistrar, LesserCallbacksWarning
from sealcar.ort.callbacks import Compilation, Location

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.skipif(runtime.version() < (1, 31), reason="ONNX Runtime before 1.31"),
    pytest.mark.parametrize("name", eps.NAMES),
]
SECRET = NotFoundError("no such payload")


@pytest.fixture
def bindings() -> BindingsRegistrar:
    with pytest.warns(LesserCallbacksWarning, match="copied once more"):
        return BindingsRegistrar()


def compiled(bindings: BindingsRegistrar, name: str, *, embed: bool = False) -> BlobStore:
    store = BlobStore()
    model, weights = models.external_model()
    write = None if embed else store.write
    sources = {models.EXTERNAL_FILE: weights}
    bindings.compile(
        eps.require(name).options(),
        Compilation(model, store.sink, write=write, sources=sources, embed=embed, stem="det"),
    )
    return store


@pytest.mark.parametrize("version", [(1, 31), (1, 32), (2, 0)])
def test_they_are_chosen_where_the_native_part_is_missing(
    name: str, version: tuple[int, int]
) -> None:
    assert name
    assert choose(version, native_part=False) == "bindings"
    assert choose(version, native_part=True) == "stable"


def test_blobs_go_out_and_come_back(bindings: BindingsRegistrar, name: str) -> None:
    store = compiled(bindings, name)
    assert len(store.writes) == 1
    assert models.blob_names(bytes(store.model)) == set(store.blobs)
    if runtime.version() >= (1, 32):
        assert all(blob.startswith("det_") for blob in store.blobs)
    options = eps.require(name).options()
    bindings.set_read(options, store.read)
    ready = loaded(bytes(store.model), options)
    assert store.reads
    assert_close(ready.run(None, models.sample_input())[0], on_cpu(models.split_model()))


def test_embedded_blobs_call_nothing(bindings: BindingsRegistrar, name: str) -> None:
    store = compiled(bindings, name, embed=True)
    assert store.writes == []
    loaded(bytes(store.model), eps.require(name).options())


def test_a_failed_read_is_told_without_a_secret(bindings: BindingsRegistrar, name: str) -> None:
    store = compiled(bindings, name)

    def read(_blob: str, allocate: Callable[[int], int]) -> None:
        allocate(8)
        raise ValueError("the secret")

    options = eps.require(name).options()
    registration = bindings.set_read(options, read)
    with pytest.raises(error_classes(), match="ValueError in the callback for blob") as raised:
        loaded(bytes(store.model), options)
    assert "secret" not in str(raised.value)
    assert isinstance(registration.failure, ValueError)


@pytest.mark.parametrize("size", [0, 1 << 60])
def test_an_impossible_size_is_refused(bindings: BindingsRegistrar, name: str, size: int) -> None:
    store = compiled(bindings, name)

    def read(_blob: str, allocate: Callable[[int], int]) -> None:
        allocate(size)

    options = eps.require(name).options()
    bindings.set_read(options, read)
    with pytest.raises(error_classes(), match="are allowed"):
        loaded(bytes(store.model), options)


def test_a_read_that_brings_nothing_is_no_success(bindings: BindingsRegistrar, name: str) -> None:
    store = compiled(bindings, name)
    options = eps.require(name).options()
    bindings.set_read(options, lambda _blob, _allocate: None)
    with pytest.raises(error_classes(), match="asked for no memory"):
        loaded(bytes(store.model), options)


def test_an_ended_registration_is_never_served(bindings: BindingsRegistrar, name: str) -> None:
    store = compiled(bindings, name)
    options = eps.require(name).options()
    bindings.set_read(options, store.read).close()
    with pytest.raises(error_classes(), match="registration has ended"):
        loaded(bytes(store.model), options)


def test_a_cleared_callback_is_never_called(
    bindings: BindingsRegistrar, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    store = compiled(bindings, name)
    options = eps.require(name).options()
    bindings.set_read(options, store.read)
    bindings.clear_read(options)
    with pytest.raises(error_classes()):
        loaded(bytes(store.model), options)
    assert store.reads == []


@pytest.mark.parametrize("part", ["write", "sink", "location"])
def test_a_failed_function_fails_the_compilation(
    bindings: BindingsRegistrar, name: str, part: str
) -> None:
    def fail(*_arguments: object) -> None:
        raise SECRET

    store = BlobStore()
    compilation = Compilation(
        models.tail_model(),
        fail if part == "sink" else store.sink,
        write=fail if part == "write" else store.write,
        location=fail if part == "location" else None,
    )
    with pytest.raises(error_classes(), match="no such payload") as raised:
        bindings.compile(eps.require(name).options(), compilation)
    assert raised.value.__cause__ is SECRET


def test_initializers_go_where_the_function_says(bindings: BindingsRegistrar, name: str) -> None:
    left = bytearray()

    def place(initializer: str, address: int, size: int) -> Location | None:
        if initializer != models.TAIL:
            return None
        left.extend(ctypes.string_at(address, size))
        return Location("left.bin", 0, size)

    store = BlobStore()
    bindings.compile(
        eps.require(name).options(),
        Compilation(models.tail_model(), store.sink, write=store.write, location=place),
    )
    assert len(left) == models.WIDTH * 4
    assert b"left.bin" in store.model


def test_a_compiler_made_by_hand_takes_a_write_callback_and_gives_it_back(
    bindings: BindingsRegistrar, name: str
) -> None:
    store, unused = BlobStore(), BlobStore()
    make = runtime.onnxruntime().ModelCompiler
    compiler = make(eps.require(name).options(), models.split_model())
    bindings.set_write(compiler, unused.write)
    bindings.clear_write(compiler)
    bindings.set_write(compiler, store.write)
    assert models.blob_names(compiler.compile_to_bytes()) == set(store.blobs)
    assert unused.writes == []


def test_what_is_no_compiler_is_refused(bindings: BindingsRegistrar, name: str) -> None:
    assert name
    with pytest.raises(RuntimeSupportError, match="ModelCompiler"):
        bindings.set_write(object(), BlobStore().write)
