"""Plugin execution providers: registered so that they honour the EPContext callbacks.

The plugins published today know the callbacks by their experimental names, which ONNX Runtime 1.31
removed. So from 1.31 on they are registered behind sealcar's compat wrapper, a part of the native
library; up to 1.30 they are registered as published.
"""

from __future__ import annotations

import ctypes
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from sealcar import native
from sealcar.errors import AlreadyExistsError, NotFoundError, RuntimeSupportError, WrongStateError
from sealcar.names import shown
from sealcar.ort import abi, compat, runtime
from sealcar.ort.adapters import FIRST_STABLE

if TYPE_CHECKING:
    from sealcar.ort.runtime import Device

_WHY_BYTES: Final = 500


class UntestedPluginWarning(UserWarning):
    """The compat wrapper acts for a plugin or runtime version that it wasn't tested with."""


class UnwrappedPluginWarning(UserWarning):
    """A plugin is registered as published, so the runtime may reject its callbacks."""


class PluginModule(Protocol):
    """The Python module of a published plugin."""

    __name__: str

    def get_library_path(self) -> str:
        """Return the path of the plugin's library."""


def register_ep(
    plugin: str | PluginModule,
    *,
    registration_name: str | None = None,
    allow_untested: bool = False,
) -> list[Device]:
    """Register a plugin, and return its devices for `SessionOptions.add_provider_for_devices`.

    There are none if the plugin supports no device of this machine.

    Args:
        plugin: its module or the module's name, as in "onnxruntime_qnn".
        registration_name: the module's own provider name by default. QNN's takes it as its own
            name, and loads compiled models under "QNNExecutionProvider" and "qnn" only.
        allow_untested: go on with a warning, not an error, where the pair of plugin and runtime
            versions wasn't tested with the compat wrapper.

    Raises:
        AlreadyExistsError: the name is registered.
        RuntimeSupportError: the plugin isn't installed, wasn't tested, or can't be loaded.
    """
    module = _module(plugin)
    library = Path(module.get_library_path())
    name = registration_name or _provider_name(module)
    ort = runtime.onnxruntime()
    wrapped = runtime.version() >= FIRST_STABLE and native.library() is not None
    if wrapped:
        _check_tested(module.__name__, allow_untested=allow_untested)
        _set_target(name, library)
    elif runtime.version() >= FIRST_STABLE:
        warnings.warn(
            f"plugin {module.__name__} is registered as published, since sealcar was built without "
            "its native part: if it doesn't declare support, only embed mode works",
            UnwrappedPluginWarning,
            stacklevel=2,
        )
    before = ort.get_ep_devices()
    try:
        ort.register_execution_provider_library(name, str(native.PATH if wrapped else library))
    except abi.error_classes() as error:
        kind = AlreadyExistsError if "already registered" in str(error) else RuntimeSupportError
        raise kind(f"plugin {module.__name__} can't be registered as {name!a}: {error}") from error
    # the runtime's bindings return one object for one device, as long as `before` is held
    return [device for device in ort.get_ep_devices() if not any(device is old for old in before)]


def unregister_ep(registration_name: str) -> None:
    """Undo `register_ep`.

    Living sessions are noticed where the compat wrapper is in use; elsewhere the caller sees to it
    that there are none.

    Raises:
        NotFoundError: no such registration.
        WrongStateError: sessions with its providers are alive; end them first.
    """
    library = native.library()
    if library is not None and library.sealcar_ep_alive(registration_name.encode()):
        raise WrongStateError(f"sessions still use provider {registration_name!a}; end them first")
    try:
        runtime.onnxruntime().unregister_execution_provider_library(registration_name)
    except abi.error_classes() as error:
        raise NotFoundError(f"provider {registration_name!a}: {error}") from error


def _module(plugin: str | PluginModule) -> PluginModule:
    if not isinstance(plugin, str):
        return plugin
    try:
        module: Any = import_module(plugin)
    except ImportError as error:
        raise RuntimeSupportError(f"plugin {shown(plugin)} isn't installed ({error})") from error
    if not hasattr(module, "get_library_path"):
        raise RuntimeSupportError(f"{shown(plugin)} is no plugin: it has no get_library_path()")
    found: PluginModule = module
    return found


def _provider_name(module: PluginModule) -> str:
    name = getattr(module, "get_ep_name", None)
    return str(name()) if name else module.__name__


def _check_tested(module: str, *, allow_untested: bool) -> None:
    try:
        compat.require_tested(module, runtime.version())
    except RuntimeSupportError as error:
        if not allow_untested:
            raise
        warnings.warn(str(error), UntestedPluginWarning, stacklevel=3)


def _set_target(name: str, library: Path) -> None:
    why = ctypes.create_string_buffer(_WHY_BYTES)
    failed = abi.library().sealcar_ep_target(
        name.encode(), str(library).encode(), why, ctypes.sizeof(why)
    )
    if failed:
        text = why.value.decode(errors="replace")
        kind = AlreadyExistsError if "is registered" in text else RuntimeSupportError
        raise kind(f"plugin {library.name} can't be wrapped as {name!a}: {text}")
