"""Real plugin execution providers for tests; a test that can't have one skips and says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.ort import register_ep, runtime
from sealcar.ort.ep import UntestedPluginWarning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.ort.runtime import Untyped

NAMES: Final = ("qnn", "openvino")
SOURCES: Final = Path(__file__).parents[1] / "native"
# tells the shim which plugin is behind it
SHIM_TARGET: Final = "SEALCAR_SHIM_PLUGIN"

_MODULES: Final = {"qnn": "onnxruntime_qnn", "openvino": "onnxruntime_ep_openvino"}
SETTINGS: Final[dict[str, dict[str, str]]] = {
    # the simulator computes in floating point only what isn't quantised at the graph's edges
    "qnn": {"backend_type": "htp", "offload_graph_io_quantization": "0"},
    "openvino": {},
}


@dataclass(frozen=True)
class Ep:
    """A registered plugin: its provider's name, its first device and options for it."""

    name: str
    device: Untyped
    settings: Mapping[str, str]

    def options(self) -> Untyped:
        """Return fresh session options with this provider."""
        options = quiet_options()
        options.add_provider_for_devices([self.device], dict(self.settings))
        return options


def quiet_options() -> Untyped:
    """Return session options whose failures aren't printed: tests provoke them."""
    options = runtime.onnxruntime().SessionOptions()
    options.log_severity_level = 4
    return options


@cache
def require(name: str) -> Ep:
    """Return the plugin "qnn" or "openvino", registered once for the process; or skip."""
    runtime.onnxruntime().set_default_logger_severity(4)
    devices = register(module(name))
    if not devices:
        pytest.skip(f"{name}: no device of this plugin on this machine")
    return Ep(devices[0].ep_name, devices[0], SETTINGS[name])


def register(plugin: Untyped, name: str | None = None) -> list[Untyped]:
    """Register a plugin; a pair that wasn't tested is no error while we find out."""
    with warnings.catch_warnings():
        if refreshing():
            warnings.simplefilter("ignore", UntestedPluginWarning)
        return register_ep(plugin, registration_name=name, allow_untested=refreshing())


def refreshing() -> bool:
    """Whether the tests run to find out which pairs of plugin and runtime work."""
    return "SEALCAR_REFRESH_COMPAT" in os.environ


def module(name: str) -> Untyped:
    """Return a plugin's module; OpenVINO's library is our shim before the real one."""
    if find_spec(_MODULES[name]) is None:
        pytest.skip(f"{name}: {_MODULES[name]} isn't installed (no wheel for this machine?)")
    found = __import__(_MODULES[name])
    return shimmed(found) if name == "openvino" else found


def shimmed(plugin: Untyped, source: str = "vendor_shim.c") -> Untyped:
    """Return a plugin's module as it is with the shim as its library."""
    os.environ[SHIM_TARGET] = plugin.get_library_path()
    library = str(build(source))
    return SimpleNamespace(
        __name__=plugin.__name__,
        get_library_path=lambda: library,
        get_ep_name=plugin.get_ep_name,
    )


@cache
def build(source: str) -> Path:
    """Compile one file of tests/native into a library; skip where there is no compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip(f"{source}: no C compiler")
    library = _folder() / source.replace(".c", ".so")
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    command = [compiler, *flags, "-o", str(library), str(SOURCES / source), "-ldl"]
    subprocess.run(command, check=True)
    return library


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="sealcar-native-"))
