"""A plain export is a package like any: ONNX Runtime opens it, and it runs as before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import eps, flows, models, plain_packages
from support.daemon import Daemon

from sealcar import modelpackage, publish
from sealcar.exports import Destination
from sealcar.ort import load, runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CPU: Final = ("CPUExecutionProvider",)
WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"
RIGHTS: Final = ("list", "read", "import", "export", "export-plain")


@pytest.fixture(scope="module")
def exporting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("d"))
    made.grant(os.geteuid(), rights=RIGHTS)
    with made as daemon:
        yield daemon


def packages(folder: Path) -> dict[str, Path]:
    model, weights = models.external_model()
    outside = {models.EXTERNAL_FILE: weights}
    elsewhere: dict[str, Any] = {"session_options": {WEIGHTS_FOLDER: "asset:b"}}
    written = plain_packages.written
    cpu = CPU[0]
    return {
        "inline": written(folder / "1", {"model.onnx": models.split_model()}, ep=cpu),
        "beside": written(folder / "2", {"model.onnx": model, **outside}, ep=cpu),
        "two assets": written(
            folder / "3",
            {"note": b""},
            {"model_file": "asset:a/in/m.onnx", **elsewhere},
            assets={"a": {"in/m.onnx": model}, "b": outside},
            ep=cpu,
        ),
    }


def test_a_plain_export_runs_as_the_sealed_package_does(exporting: Daemon, tmp_path: Path) -> None:
    onnxruntime = runtime.onnxruntime()
    want = flows.on_cpu(models.split_model(), models.sample_input())
    for number, root in enumerate(packages(tmp_path / "plain").values()):
        name, out = f"p{number}", tmp_path / f"out{number}"
        with exporting.connect() as client, publish.plan(root, name=name) as plan:
            client.catalogue.import_(plan)
            client.catalogue.export(name, Destination(out), plain=True)
        session = load(out, session_options=eps.quiet_options(), providers=CPU)
        assert session.run(None, models.sample_input())[0] == pytest.approx(want)
        assert list(modelpackage.open(out).shared_assets) == list(
            modelpackage.open(root).shared_assets
        )
        if hasattr(onnxruntime, "ModelPackage"):
            with onnxruntime.ModelPackage.open(str(out)) as opened:
                (component,) = opened.get_info()["components"]
            assert component["variants"][0]["variant_directory"] == str(out / "main" / "v")
