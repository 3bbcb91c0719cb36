"""Published plugins, registered so that their callbacks work on every runtime."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest
from support import eps, models
from support.blobs import BlobStore, assert_close, loaded, on_cpu

from sealcar import native
from sealcar.errors import (
    AlreadyExistsError,
    NotFoundError,
    RuntimeSupportError,
    WrongStateError,
)
from sealcar.ort import compat, register_ep, runtime, unregister_ep
from sealcar.ort.adapters import registrar
from sealcar.ort.callbacks import Compilation
from sealcar.ort.ep import UntestedPluginWarning

if TYPE_CHECKING:
    from sealcar.ort.runtime import Untyped

WRAPPING: Final = runtime.version() >= (1, 31)
only_wrapped = pytest.mark.skipif(not WRAPPING, reason="ONNX Runtime before 1.31 wraps nothing")
SETTINGS: Final = {"backend_type": "htp", "offload_graph_io_quantization": "0"}
# the one that QNN takes for its own beside the usual one, which other tests hold
OTHER_NAME: Final = "qnn"
TESTS: Final = Path(__file__).parents[1]


def qnn_options(devices: list[Untyped]) -> Untyped:
    options = eps.quiet_options()
    options.add_provider_for_devices(devices[:1], SETTINGS)
    return options


def round_trip(devices: list[Untyped]) -> Untyped:
    """Compile and load with QNN; return the session."""
    store = BlobStore()
    model = models.split_model()
    registrar().compile(qnn_options(devices), Compilation(model, store.sink, write=store.write))
    options = qnn_options(devices)
    registrar().set_read(options, store.read)
    ready = loaded(bytes(store.model), options)
    assert_close(ready.run(None, models.sample_input())[0], on_cpu(model))
    return ready


@pytest.fixture
def qnn() -> Untyped:
    return eps.module("qnn")


@only_wrapped
@pytest.mark.parametrize("name", eps.NAMES)
def test_the_installed_pair_is_one_that_the_data_names(name: str) -> None:
    if eps.refreshing():
        pytest.skip("this run finds out")
    compat.require_tested(eps.module(name).__name__, runtime.version())


def test_the_data_holds_nothing_but_versions() -> None:
    text = Path(compat.__file__).with_name(compat.DATA).read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    for plugin in compat.plugins():
        for installed, runtimes in plugin.tested.items():
            assert runtime.parse(installed) > (0, 0)
            assert all(runtime.parse(each) >= (1, 31) for each in runtimes)


@pytest.mark.parametrize("version", [(1, 33), (2, 0)])
def test_a_runtime_that_was_not_tested_is_refused(version: tuple[int, int], qnn: Untyped) -> None:
    with pytest.raises(RuntimeSupportError, match=r"onnxruntime-qnn .* wasn't tested with"):
        compat.require_tested(qnn.__name__, version)


def test_a_plugin_of_an_unknown_version_is_refused(
    tmp_path: Path, qnn: Untyped, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = tmp_path / "onnxruntime_qnn-99.9.dist-info"
    newer.mkdir()
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-qnn\nVersion: 99.9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeSupportError, match=r"onnxruntime-qnn 99\.9 wasn't tested with"):
        compat.require_tested(qnn.__name__, (1, 32))


@only_wrapped
def test_a_plugin_that_was_not_tested_is_refused_unless_the_caller_insists(qnn: Untyped) -> None:
    other = SimpleNamespace(__name__="other_plugin", get_library_path=qnn.get_library_path)
    with pytest.raises(RuntimeSupportError, match="'other_plugin' was never tested"):
        register_ep(other, registration_name="other")
    with pytest.warns(UntestedPluginWarning, match="never tested"):
        devices = register_ep(other, registration_name=OTHER_NAME, allow_untested=True)
    ready = round_trip(devices)
    del ready
    gc.collect()
    unregister_ep(OTHER_NAME)


@pytest.mark.parametrize(
    ("plugin", "text"),
    [("no_such_plugin", "isn't installed"), ("json", "it has no get_library_path")],
)
def test_what_is_no_plugin_is_refused(plugin: str, text: str) -> None:
    with pytest.raises(RuntimeSupportError, match=text):
        register_ep(plugin)


def test_a_library_that_can_not_be_loaded_is_refused(tmp_path: Path, qnn: Untyped) -> None:
    missing = SimpleNamespace(
        __name__=qnn.__name__, get_library_path=lambda: str(tmp_path / "missing.so")
    )
    with pytest.raises(RuntimeSupportError, match=r"missing\.so"):
        eps.register(missing, "missing")


def test_a_name_is_registered_once(qnn: Untyped) -> None:
    eps.register(qnn, "once")
    with pytest.raises(AlreadyExistsError, match="once"):
        eps.register(qnn, "once")
    unregister_ep("once")
    with pytest.raises(NotFoundError, match="once"):
        unregister_ep("once")


def test_twenty_cycles_of_register_compile_load_and_unregister(qnn: Untyped) -> None:
    for _ in range(20):
        devices = eps.register(qnn, OTHER_NAME)
        assert [device.ep_name for device in devices] == [OTHER_NAME] * len(devices)
        ready = round_trip(devices)
        del ready, devices
        gc.collect()
        unregister_ep(OTHER_NAME)


@only_wrapped
def test_a_plugin_stays_registered_while_a_session_uses_it(qnn: Untyped) -> None:
    ready = round_trip(eps.register(qnn, OTHER_NAME))
    with pytest.raises(WrongStateError, match="sessions still use"):
        unregister_ep(OTHER_NAME)
    ready.run(None, models.sample_input())
    del ready
    gc.collect()
    unregister_ep(OTHER_NAME)


@only_wrapped
@pytest.mark.parametrize("name", eps.NAMES)
def test_both_callbacks_are_declared_once_the_plugin_looked_them_up(name: str) -> None:
    ep = eps.require(name)
    loaded(models.whole_model(), ep.options())
    library = native.library()
    assert library is not None
    assert library.sealcar_ep_support(ep.name.encode()) == 3


UNADOPTED: Final = """
import sys
from sealcar.errors import RuntimeSupportError
from sealcar.ort import register_ep, runtime
from sealcar.ort.adapters import registrar
from sealcar.ort.callbacks import Compilation
from support import eps, models
from support.blobs import BlobStore

plugin = eps.shimmed(eps.module("qnn"))
device = register_ep(plugin, registration_name="unadopted", allow_untested=True)[0]
def options():
    made = eps.quiet_options()
    made.add_provider_for_devices([device], {"backend_type": "htp"})
    return made
store = BlobStore()
registrar().compile(options(), Compilation(models.split_model(), store.sink, embed=True))
assert models.context_count(bytes(store.model)) == 3
store = BlobStore()
try:
    registrar().compile(
        options(), Compilation(models.split_model(), store.sink, write=store.write)
    )
except RuntimeSupportError as error:
    print(error)
assert store.writes == [] and store.model == b""
"""


def test_a_plugin_that_never_adopted_the_callbacks_fails_closed(
    tmp_path: Path, qnn: Untyped
) -> None:
    """The real plugin, from which the shim hides that there are callbacks."""
    assert qnn
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "SEALCAR_SHIM_HIDE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", UNADOPTED],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    if WRAPPING:
        assert "'unadopted' doesn't honour the write callback" in done.stdout
    assert "embed=True" in done.stdout
    assert list(tmp_path.iterdir()) == []
