"""A store of blobs in memory, for tests of the callbacks, and what compiles and loads with it."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import numpy as np
from support import eps, models

from sealcar.ort import runtime
from sealcar.ort.adapters import registrar
from sealcar.ort.callbacks import Compilation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar.ort.runtime import Untyped


class BlobStore:
    """Blobs in a dict, the compiled model, and a log of the calls."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.model = bytearray()
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.threads: set[int] = set()

    def write(self, name: str, address: int, size: int) -> None:
        self.writes.append(name)
        self.blobs[name] = ctypes.string_at(address, size)

    def read(self, name: str, allocate: Callable[[int], int]) -> None:
        self.reads.append(name)
        self.threads.add(threading.get_ident())
        data = self.blobs[name]
        ctypes.memmove(allocate(len(data)), data, len(data))

    def sink(self, address: int, size: int) -> None:
        self.model += ctypes.string_at(address, size)


def compiled(name: str, model: bytes, **settings: Untyped) -> BlobStore:
    """Compile with a plugin into a fresh store."""
    store = BlobStore()
    compilation = Compilation(model, store.sink, write=store.write, **settings)
    registrar().compile(eps.require(name).options(), compilation)
    return store


def session(name: str, store: BlobStore) -> Untyped:
    """Load what a store has with a plugin."""
    options = eps.require(name).options()
    registrar().set_read(options, store.read)
    return loaded(bytes(store.model), options)


def loaded(model: bytes, options: Untyped) -> Untyped:
    """Make a session that never retries on the CPU."""
    return runtime.onnxruntime().InferenceSession(model, options, enable_fallback=0)


def on_cpu(model: bytes) -> Untyped:
    """Return the plain model's output on the CPU."""
    make = runtime.onnxruntime().InferenceSession
    plain = make(model, eps.quiet_options(), providers=["CPUExecutionProvider"])
    return plain.run(None, models.sample_input())[0]


def assert_close(got: Untyped, want: Untyped) -> None:
    """Compare outputs as far as a plugin's arithmetic goes."""
    np.testing.assert_allclose(got, want, atol=0.02)
