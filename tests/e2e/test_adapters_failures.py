"""Whatever a callback does, the runtime gets a proper error, and no session or model exists."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from typing import TYPE_CHECKING

import pytest
from support import eps, models
from support.blobs import BlobStore, compiled, loaded, session

from sealcar.errors import InvalidRequestError, NotFoundError, Place
from sealcar.ort.abi import error_classes
from sealcar.ort.adapters import registrar
from sealcar.ort.callbacks import Compilation, Location, Registration

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.parametrize("name", eps.NAMES)
OURS = NotFoundError("no such payload", place=Place("open", "ocr", component="det", variant="npu"))


def refused_load(name: str, read: Callable[[str, Callable[[int], int]], None]) -> Registration:
    """Load with a read function that fails; return its registration with the text as failure."""
    store = compiled(name, models.split_model())
    options = eps.require(name).options()
    registration = registrar().set_read(options, read)
    with pytest.raises(error_classes()) as raised:
        loaded(bytes(store.model), options)
    registration.text = str(raised.value)  # type: ignore[attr-defined]  # for the test
    return registration


def text_of(name: str, error: BaseException) -> str:
    def read(_blob: str, _allocate: Callable[[int], int]) -> None:
        raise error

    registration = refused_load(name, read)
    assert registration.failure is error
    return str(vars(registration)["text"])


def test_our_error_is_told_in_full(name: str) -> None:
    text = text_of(name, OURS)
    assert "NotFoundError: open: ocr/det/npu: no such payload" in text
    assert "Traceback" not in text
    assert ".py" not in text


@pytest.mark.parametrize("kind", [ValueError, OSError, MemoryError, KeyboardInterrupt, SystemExit])
def test_of_a_foreign_error_only_the_class_is_told(name: str, kind: type[BaseException]) -> None:
    text = text_of(name, kind("the secret"))
    assert f"{kind.__name__} in the callback for blob 'model_" in text
    assert "secret" not in text


def test_a_text_that_is_no_utf8_and_too_long_is_made_fit(name: str) -> None:
    text = text_of(name, NotFoundError("\udcff\0\n" + "é" * 1000))
    assert "NotFoundError: ???éé" in text
    assert len(text.encode()) < 700


def test_an_interrupt_in_mid_read_is_a_clean_error(name: str) -> None:
    def read(_blob: str, allocate: Callable[[int], int]) -> None:
        allocate(1 << 20)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(5)

    registration = refused_load(name, read)
    assert isinstance(registration.failure, KeyboardInterrupt)


@pytest.mark.parametrize("size", [0, -1, 1 << 60])
def test_an_impossible_size_is_refused(name: str, size: int) -> None:
    def read(_blob: str, allocate: Callable[[int], int]) -> None:
        allocate(size)

    assert "are allowed" in vars(refused_load(name, read))["text"]


def test_a_size_over_the_limit_is_refused(name: str) -> None:
    store = compiled(name, models.split_model())
    options = eps.require(name).options()
    registrar().set_read(options, store.read, limit=1000)
    with pytest.raises(error_classes(), match="from 1 to 1000 are allowed"):
        loaded(bytes(store.model), options)


def test_memory_is_given_once(name: str) -> None:
    def read(_blob: str, allocate: Callable[[int], int]) -> None:
        allocate(8)
        allocate(8)

    assert "memory is given once" in vars(refused_load(name, read))["text"]


def test_a_read_that_brings_nothing_is_no_success(name: str) -> None:
    text = vars(refused_load(name, lambda _blob, _allocate: None))["text"]
    assert "asked for no memory" in text


def test_memory_can_not_be_asked_for_after_the_call(name: str) -> None:
    kept: list[Callable[[int], int]] = []
    store = compiled(name, models.split_model())

    def read(blob: str, allocate: Callable[[int], int]) -> None:
        kept.append(allocate)
        store.read(blob, allocate)

    options = eps.require(name).options()
    registrar().set_read(options, read)
    loaded(bytes(store.model), options)
    with pytest.raises(Exception, match="during the call"):
        kept[0](8)


def test_a_failed_write_fails_the_compilation_and_is_its_cause(name: str) -> None:
    def write(_blob: str, _address: int, _size: int) -> None:
        raise OURS

    store = BlobStore()
    with pytest.raises(error_classes(), match="no such payload") as raised:
        registrar().compile(
            eps.require(name).options(),
            Compilation(models.split_model(), store.sink, write=write),
        )
    assert raised.value.__cause__ is OURS
    assert store.model == b""


def test_a_failed_sink_fails_the_compilation(name: str) -> None:
    def sink(_address: int, _size: int) -> None:
        raise KeyboardInterrupt

    store = BlobStore()
    with pytest.raises(error_classes(), match="KeyboardInterrupt in the callback for the compiled"):
        registrar().compile(
            eps.require(name).options(),
            Compilation(models.split_model(), sink, write=store.write),
        )


@pytest.mark.parametrize("path", [None, "x" * 2000])
def test_a_failed_location_fails_the_compilation(name: str, path: str | None) -> None:
    def place(_name: str, _address: int, size: int) -> Location:
        if path is None:
            raise OURS
        return Location(path, 0, size)

    store = BlobStore()
    with pytest.raises(error_classes(), match=r"no such payload|over 1000 bytes"):
        registrar().compile(
            eps.require(name).options(),
            Compilation(models.tail_model(), store.sink, write=store.write, location=place),
        )


def test_a_compilation_of_no_node_fails(name: str) -> None:
    eps.require(name)
    store = BlobStore()
    with pytest.raises(error_classes(), match=r"no nodes|No nodes|not compiled|any nodes"):
        registrar().compile(
            eps.quiet_options(), Compilation(models.split_model(), store.sink, write=store.write)
        )
    assert store.model == b""


@pytest.mark.parametrize("stem", ["", "a/b", "../x", "a.b", "x" * 200])
def test_a_stem_that_could_be_a_path_is_refused(name: str, stem: str) -> None:
    store = BlobStore()
    with pytest.raises(InvalidRequestError, match="stem"):
        registrar().compile(
            eps.require(name).options(),
            Compilation(models.split_model(), store.sink, write=store.write, stem=stem),
        )


def test_blobs_outside_the_model_need_a_write_function(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="write function"):
        registrar().compile(
            eps.require(name).options(), Compilation(models.split_model(), BlobStore().sink)
        )


def test_an_ended_registration_is_never_served(name: str) -> None:
    store = compiled(name, models.split_model())
    options = eps.require(name).options()
    registrar().set_read(options, store.read).close()
    with pytest.raises(error_classes(), match="registration has ended"):
        loaded(bytes(store.model), options)
    assert store.reads == []


def test_a_registration_lives_as_long_as_a_session_of_its_options(name: str) -> None:
    store = compiled(name, models.split_model())
    options = eps.require(name).options()
    registration = weakref.ref(registrar().set_read(options, store.read))
    ready = loaded(bytes(store.model), options)
    del options
    gc.collect()
    assert registration() is not None
    del ready
    gc.collect()
    assert registration() is None


def test_failures_leave_nothing_that_hinders_a_later_load(name: str) -> None:
    store = compiled(name, models.split_model())
    for _ in range(20):
        options = eps.require(name).options()
        registrar().set_read(options, BlobStore().read)
        with pytest.raises(error_classes()):
            loaded(bytes(store.model), options)
    session(name, store)
