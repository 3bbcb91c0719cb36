"""The compat wrapper around a small plugin of our own: what it forwards, declares, leaves alone."""

from __future__ import annotations

import ctypes
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest
from support import eps, natives
from support.natives import POINTER, code_and_text, entry

from sealcar.ort import abi, runtime

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.ort.runtime import Untyped

pytestmark = pytest.mark.skipif(
    runtime.version() < (1, 31), reason="ONNX Runtime before 1.31 passes through"
)

WORDS: Final = (ctypes.c_size_t,) * 5
# version of a provider -> its last function
LAST: Final = {23: 12, 24: 14, 25: 16, 26: 21, 27: 24, 28: 24, 29: 25, 30: 25}
SUPPORT: Final = 26
CREATE_EP: Final = 4
RELEASE_EP: Final = 5


class Wrapped:
    """The wrapper with the small plugin behind it, and what the runtime would call."""

    def __init__(self, folder: Path) -> None:
        self.library = natives.private_copy(folder)
        path = folder / "small_plugin.so"
        shutil.copy(eps.build("small_plugin.c"), path)
        self.path = path
        self.plugin = ctypes.CDLL(str(path))
        self.register = entry(
            *(self.library, "CreateEpFactories", ctypes.c_char_p, POINTER, POINTER, POINTER),
            *(ctypes.c_size_t, POINTER),
        )
        self.release_factory = entry(self.library, "ReleaseEpFactory", POINTER)

    def set(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.plugin, f"small_{name}").value = value

    def get(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.plugin, f"small_{name}").value

    def last_self(self) -> int | None:
        return POINTER.in_dll(self.plugin, "small_last_self").value

    def target(self, name: str = "small", path: str = "") -> str:
        """Name the plugin; return why it was refused."""
        why = ctypes.create_string_buffer(200)
        target = self.library.sealcar_ep_target
        refused = target(name.encode(), (path or str(self.path)).encode(), why, 200)
        return why.value.decode() if refused else ""

    def factories(self, name: str = "small", most: int = 8) -> list[int]:
        made, count = (POINTER * most)(), ctypes.c_size_t()
        base = abi.the_runtime().base
        status = self.register(name.encode(), base, None, made, most, ctypes.byref(count))
        assert status is None, code_and_text(status)
        return [int(made[i] or 0) for i in range(count.value)]

    def factory(self) -> int:
        assert self.target() == ""
        (made,) = self.factories()
        return made

    def create(self, factory: int) -> tuple[int | None, int]:
        ep = POINTER()
        call = self._slot(factory, CREATE_EP, POINTER, *(POINTER,) * 7)
        status = call(factory, None, None, 0, None, None, ctypes.byref(ep))
        return status, int(ep.value or 0)

    def provider(self, factory: int) -> int:
        status, ep = self.create(factory)
        assert status is None
        return ep

    def release(self, factory: int, ep: int) -> None:
        self._slot(factory, RELEASE_EP, None, POINTER, POINTER)(factory, ep)

    def call(self, ep: int, slot: int, *arguments: int) -> int | None:
        result: int | None = self._slot(ep, slot, ctypes.c_size_t, POINTER, *WORDS)(ep, *arguments)
        return result

    def support(self, ep: int) -> int:
        flags = ctypes.c_uint32(99)
        call = self._slot(ep, SUPPORT, POINTER, POINTER, POINTER)
        assert call(ep, ctypes.byref(flags)) is None
        return flags.value

    def _slot(self, table: int, slot: int, *types: Untyped) -> Untyped:
        address = slots(table, slot + 1)[slot]
        assert address
        return ctypes.CFUNCTYPE(*types)(address)


def slots(table: int, count: int) -> list[int | None]:
    return list((POINTER * count).from_address(table))


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    return Wrapped(tmp_path)


@pytest.mark.parametrize("version", LAST)
def test_every_function_of_a_version_is_forwarded_with_its_arguments(
    wrapped: Wrapped, version: int
) -> None:
    wrapped.set("version", version)
    factory = wrapped.factory()
    ep = wrapped.provider(factory)
    own = {wrapped.call(ep, 1, 0, 0, 0, 0, 0): wrapped.last_self()}
    assert own[1] not in {None, ep}
    for slot in range(1, LAST[version] + 1):
        assert wrapped.call(ep, slot, 1, 2, 3, 4, 5) == 5432100 + slot
        assert wrapped.last_self() == own[1]
    assert slots(ep, SUPPORT)[LAST[version] + 1 :] == [None] * (SUPPORT - LAST[version] - 1)
    assert ctypes.c_uint32.from_address(ep).value == 31
    wrapped.release(factory, ep)
    assert wrapped.last_self() == own[1]
    assert wrapped.get("alive") == 0


@pytest.mark.parametrize("looked_up", [0, 1, 2, 3])
def test_only_what_the_plugin_looked_up_is_declared(wrapped: Wrapped, looked_up: int) -> None:
    wrapped.set("looks_up", looked_up)
    factory = wrapped.factory()
    ep = wrapped.provider(factory)
    assert wrapped.support(ep) == looked_up
    assert wrapped.library.sealcar_ep_support(b"small") == looked_up
    wrapped.release(factory, ep)


@pytest.mark.parametrize("version", [31, 32, 99])
def test_a_provider_that_speaks_for_itself_is_left_alone(wrapped: Wrapped, version: int) -> None:
    wrapped.set("version", version)
    factory = wrapped.factory()
    ep = wrapped.provider(factory)
    assert ctypes.c_uint32.from_address(ep).value == version
    assert wrapped.call(ep, 25, 0, 0, 0, 0, 0) == 25
    assert wrapped.last_self() == ep
    assert wrapped.library.sealcar_ep_alive(b"small") == 0
    wrapped.release(factory, ep)
    assert wrapped.last_self() == ep


@pytest.mark.parametrize("version", [0, 1, 22])
def test_a_provider_of_an_unknown_version_is_refused_and_released(
    wrapped: Wrapped, version: int
) -> None:
    wrapped.set("version", version)
    status, ep = wrapped.create(wrapped.factory())
    assert "version that sealcar doesn't know" in code_and_text(status)[1]
    assert ep == 0
    assert wrapped.get("alive") == 0


def test_a_plugin_that_asks_for_the_stable_version_gets_the_real_table(wrapped: Wrapped) -> None:
    wrapped.set("api_version", 31)
    wrapped.set("looks_up", 3)
    factory = wrapped.factory()
    assert wrapped.support(wrapped.provider(factory)) == 0


def test_living_providers_are_counted(wrapped: Wrapped) -> None:
    factory = wrapped.factory()
    made = [wrapped.provider(factory) for _ in range(5)]
    assert wrapped.library.sealcar_ep_alive(b"small") == 5
    for left, ep in enumerate(reversed(made)):
        assert wrapped.library.sealcar_ep_alive(b"small") == 5 - left
        wrapped.release(factory, ep)
    assert wrapped.library.sealcar_ep_alive(b"small") == 0
    assert wrapped.library.sealcar_ep_alive(b"another") == 0


def test_providers_are_made_and_released_from_many_threads(wrapped: Wrapped) -> None:
    factory = wrapped.factory()

    def cycle(_number: int) -> None:
        for _ in range(200):
            ep = wrapped.provider(factory)
            assert wrapped.call(ep, 3, 1, 0, 0, 0, 0) == 103
            wrapped.release(factory, ep)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(cycle, range(8)))
    assert wrapped.library.sealcar_ep_alive(b"small") == 0


def test_a_name_is_registered_again_and_again(wrapped: Wrapped) -> None:
    for _ in range(50):
        factory = wrapped.factory()
        wrapped.release(factory, wrapped.provider(factory))
        assert wrapped.release_factory(factory) is None


def test_many_factories_and_names_have_no_bound(wrapped: Wrapped) -> None:
    wrapped.set("factories", 100)
    for number in range(20):
        assert wrapped.target(f"name{number}") == ""
        assert len(wrapped.factories(f"name{number}", most=100)) == 100


def test_a_registered_name_is_not_taken_over(wrapped: Wrapped) -> None:
    factory = wrapped.factory()
    assert wrapped.target() == "this name is registered"
    wrapped.release_factory(factory)
    assert wrapped.target() == ""


def test_a_name_without_a_plugin_is_refused_by_name_of_the_remedy(wrapped: Wrapped) -> None:
    count = ctypes.c_size_t()
    status = wrapped.register(
        b"unknown", abi.the_runtime().base, None, (POINTER * 1)(), 1, ctypes.byref(count)
    )
    assert "sealcar.ort.register_ep" in code_and_text(status)[1]


def test_what_is_no_library_or_no_plugin_is_refused(wrapped: Wrapped, tmp_path: Path) -> None:
    assert "cannot open" in wrapped.target(path=str(tmp_path / "missing.so"))
    (tmp_path / "text.so").write_text("text")
    assert wrapped.target(path=str(tmp_path / "text.so"))
    assert wrapped.target(path="libc.so.6") == "it is no plugin of execution providers"
    assert wrapped.library.sealcar_ep_support(b"small") == -1


def test_an_unknown_factory_or_provider_ends_nothing(wrapped: Wrapped) -> None:
    factory = wrapped.factory()
    block = (POINTER * 40).from_buffer_copy((POINTER * 40).from_address(factory))
    status, _ = wrapped.create(ctypes.addressof(block))
    assert "unknown factory" in code_and_text(status)[1]
    # what slot 4 and 5 of the copy call finds nothing to release
    wrapped.release(ctypes.addressof(block), ctypes.addressof(block))
    assert wrapped.release_factory(ctypes.addressof(block)) is None
