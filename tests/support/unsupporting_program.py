"""A program whose QNN plugin can't find the callbacks, which is for good in a process.

    python -m support.unsupporting_program SOCKET compile|embed|load

It prints "done", or the error's class and text.
"""

from __future__ import annotations

import os
import sys

from support import eps, models

import sealcar
from sealcar.errors import SealcarError
from sealcar.ort import compile as compile_variant
from sealcar.ort import load, runtime


def options() -> runtime.SessionOptions:
    """Return options with the plugin, which was registered past sealcar."""
    devices = runtime.onnxruntime().get_ep_devices()
    device = next(each for each in devices if each.ep_name == "QNNExecutionProvider")
    made = eps.quiet_options()
    made.add_provider_for_devices([device], eps.SETTINGS["qnn"])
    return made


def main(socket: str, step: str) -> None:
    """Do one step with variants "onnx", "compiled" and "embedded" of package p."""
    os.environ["SEALCAR_SHIM_HIDE"] = "1"
    library = eps.shimmed(__import__("onnxruntime_qnn")).get_library_path()
    runtime.onnxruntime().register_execution_provider_library("QNNExecutionProvider", library)
    with sealcar.connect(socket) as client:
        if step == "load":
            load(client, "p", variant="compiled", session_options=options())
            return
        embed = step == "embed"
        compile_variant(
            client,
            "p",
            source="onnx",
            variant="embedded",
            session_options=options(),
            embed=embed,
        )
        session = load(client, "p", variant="embedded", session_options=options())
        session.run(None, models.sample_input())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except SealcarError as error:
        print(type(error).__name__, error)  # noqa: T201  (what the test reads)
    else:
        print("done")  # noqa: T201  (what the test reads)
