"""A program that compiles and loads one sealed model, for tests that watch it from outside.

python -m support.flow_program SOCKET PACKAGE MODULE LIBRARY NAME
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

from support import eps, models

import sealcar
from sealcar.ort import compile as compile_variant
from sealcar.ort import load, register_ep, runtime


def main(socket: str, package: str, module: str, library: str, name: str) -> None:
    """Compile variant "onnx" of the package, load the result, and run it once."""
    real = __import__(module)
    plugin = SimpleNamespace(
        __name__=module, get_library_path=lambda: library, get_ep_name=real.get_ep_name
    )
    devices = register_ep(plugin)

    def options() -> object:
        made = runtime.onnxruntime().SessionOptions()
        made.add_provider_for_devices(devices[:1], eps.SETTINGS[name])
        return made

    with sealcar.connect(socket) as client:
        compile_variant(
            client, package, source="onnx", variant="compiled", session_options=options()
        )
        session = load(client, package, variant="compiled", session_options=options())
        session.run(None, models.sample_input())


if __name__ == "__main__":
    main(*sys.argv[1:])
