"""The package that ONNX Runtime is asked about: for every provider and kind of device a variant."""

from __future__ import annotations

from pathlib import Path

from sealcar import modelpackage, ort
from sealcar.ort import options


def test_each_kind_of_device_can_be_asked_about_for_every_known_provider() -> None:
    eps = {table.ep for table in options.tables().values() if table.ep} | {
        "OpenVINOExecutionProvider.AUTO"
    }
    with modelpackage.open(Path(ort.__file__).parent / "device_kinds") as package:
        asked = {
            (name, variant.ep, variant.device, variant.compatibility)
            for name, component in package.components.items()
            for variant in component.variants.values()
        }
    kinds = ("cpu", "gpu", "npu")
    assert asked == {(f"{ep}.{kind}", ep, kind, None) for ep in eps for kind in kinds}
