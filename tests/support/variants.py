"""Packages of which only matters what they say of their variants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sealcar.ort.choosing import Offer


def write(root: Path, components: Mapping[str, Sequence[Offer]]) -> Path:
    """Write a package of ordinary models, and return its directory."""
    root.mkdir()
    bodies: dict[str, Any] = {}
    for component, offers in components.items():
        variants = {each.variant: _body(component, each) for each in offers}
        bodies[component] = {"variants": variants}
        for each in offers:
            folder = root / component / each.variant
            folder.mkdir(parents=True)
            (folder / "m.onnx").write_bytes(models.whole_model(parts=1))
    (root / "manifest.json").write_text(json.dumps({"schema_version": "1.0", "components": bodies}))
    return root


def _body(component: str, offer: Offer) -> dict[str, Any]:
    said = {
        "ep": offer.ep,
        "device": offer.device,
        "compatibility_string": offer.compatibility,
    }
    return {
        "variant_directory": f"{component}/{offer.variant}",
        "executor_info": {"ort": {"model_file": "m.onnx"}},
        **{key: value for key, value in said.items() if value},
    }
