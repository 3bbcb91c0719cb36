"""The plugin of tests/native/verdict_plugin.c, whose answers a compatibility string asks for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from support import eps

from sealcar.ort import runtime
from sealcar.ort.configured import devices_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealcar.ort.runtime import Device, Untyped

# the runtime is asked for the devices of providers that sealcar knows; this one isn't installed
EP: Final = "NvTensorRTRTXExecutionProvider"
KINDS: Final = ("cpu", "gpu", "npu")


@cache
def devices() -> dict[str, Device]:
    """Register the plugin once for the process; return its devices by their kind."""
    runtime.onnxruntime().set_default_logger_severity(4)
    library = eps.build("verdict_plugin.c")
    runtime.onnxruntime().register_execution_provider_library(EP, str(library))
    return {kind_of(each): each for each in devices_of(EP)}


def options(kinds: Iterable[str] = KINDS) -> Untyped:
    """Return fresh session options with the plugin, for some of its devices."""
    made = eps.quiet_options()
    made.add_provider_for_devices([devices()[kind] for kind in kinds], {})
    return made
