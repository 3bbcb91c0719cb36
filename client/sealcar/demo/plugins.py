"""The plugin execution providers that the demonstration can compile Magika's model with."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Plugin:
    """One provider, and what it needs for this model.

    Attributes:
        module: of its Python package; also the name it is registered under.
        provider: what ONNX Runtime calls it.
        title: for people.
        variant: name of the compiled variant.
        options: the provider's.
        accelerator: it compiles fixed shapes only and computes in half precision. So the batch is
            fixed to one file, and the model is made fit first.
    """

    module: str
    provider: str
    title: str
    variant: str
    options: Mapping[str, str] = field(default_factory=dict)
    accelerator: bool = False


PLUGINS: Final[Mapping[str, Plugin]] = {
    "qnn": Plugin(
        module="onnxruntime_qnn",
        provider="QNNExecutionProvider",
        title="Qualcomm's QNN (HTP; here its simulator)",
        variant="qnn-htp",
        options={
            "backend_type": "htp",
            "soc_model": "60",
            "offload_graph_io_quantization": "0",
        },
        accelerator=True,
    ),
    "openvino": Plugin(
        module="onnxruntime_ep_openvino",
        provider="OpenVINOExecutionProvider",
        title="Intel's OpenVINO (CPU)",
        variant="openvino-cpu",
    ),
}


def choose(wanted: str | None) -> str:
    """Return the plugin to use: the one wanted, else the first that is installed.

    Raises:
        RuntimeSupportError: it isn't installed.
    """
    for name, plugin in PLUGINS.items():
        if wanted in (None, name) and find_spec(plugin.module) is not None:
            return name
    module = PLUGINS[wanted].module if wanted else "a plugin execution provider"
    raise RuntimeSupportError(
        f"the demo needs {module}, which isn't installed; remedy: pip install 'sealcar[demo]'"
    )
