"""The C client and ONNX Runtime's shared library: a server in C, and one that takes plugins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from support import c_programs, eps, flows, models
from support.blobs import loaded
from support.daemon import Daemon

from sealcar import native
from sealcar.ort import compile as compile_variant
from sealcar.ort import load, runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FIRST_STABLE = (1, 31)
COMPONENT = "main"


class Published(NamedTuple):
    """A daemon with one package of a model that leaves weights to the CPU."""

    daemon: Daemon
    want: NDArray[np.float32]

    def server(self, mode: str, ep: eps.Ep, plugin: str, to: Path, variant: str) -> None:
        """Run the server in C to its end."""
        (library,) = Path(str(runtime.onnxruntime().__file__)).parent.glob(
            "capi/libonnxruntime.so.*"
        )
        settings = ",".join(f"{key}={value}" for key, value in ep.settings.items()) or "-"
        wrapper = str(native.PATH) if runtime.version() >= FIRST_STABLE else "-"
        program = str(c_programs.program("c_server"))
        done = c_programs.run(
            [
                *(program, mode, str(library), ep.name, plugin, wrapper, settings),
                *("p", COMPONENT, "onnx", variant, str(to)),
            ],
            self.daemon.socket,
            data=models.sample_input()["x"].tobytes(),
            **{eps.SHIM_TARGET: os.environ.get(eps.SHIM_TARGET, "")},
        )
        assert done.returncode == 0, done.stderr

    def assert_answer(self, answer: NDArray[np.float32]) -> None:
        flows.assert_equal_answers(answer.reshape(self.want.shape), self.want)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    folder = tmp_path_factory.mktemp("c-runtime")
    whole = flows.leftover_model(seed=flows.fresh_seed())
    model, weights = flows.moved_out(whole)
    want = flows.on_cpu(whole.SerializeToString(), models.sample_input())
    with Daemon(folder) as daemon:
        with daemon.connect() as client:
            flows.publish_model(client, folder / "s", "p", model=model, weights=weights)
        yield Published(daemon, want)


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_server_in_c_compiles_a_sealed_model_and_runs_what_it_compiled(
    name: str, published: Published, tmp_path: Path
) -> None:
    ep = eps.require(name)
    plugin = eps.module(name).get_library_path()
    published.server("compile", ep, plugin, tmp_path / "y", f"c-{name}")
    published.server("run", ep, plugin, tmp_path / "y", f"c-{name}")
    published.assert_answer(np.fromfile(tmp_path / "y", np.float32))
    with published.daemon.connect() as client:
        kinds = {payload.kind for payload in client.scope("p", COMPONENT, f"c-{name}").payloads}
        assert {"model", "blob"} <= kinds
        session = load(client, "p", variant=f"c-{name}", session_options=ep.options())
    published.assert_answer(session.run(None, models.sample_input())[0])


def test_a_server_in_c_runs_what_python_compiled(published: Published, tmp_path: Path) -> None:
    ep = eps.require("openvino")
    with published.daemon.connect() as client:
        compile_variant(client, "p", source="onnx", variant="python", session_options=ep.options())
    plugin = eps.module("openvino").get_library_path()
    published.server("run", ep, plugin, tmp_path / "y", "python")
    published.assert_answer(np.fromfile(tmp_path / "y", np.float32))


def test_a_server_that_takes_a_library_of_custom_operators_reads_blobs_through_it(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require("qnn")
    with published.daemon.connect() as client:
        made = compile_variant(
            client, "p", source="onnx", variant="registered", session_options=ep.options()
        )
        (model,) = (made.read(each.name) for each in made.payloads if each.kind == "model")
        files = {
            each.name: made.read(each.name) for each in made.payloads if each.kind == "initializers"
        }
    library = str(c_programs.shared_library())
    monkeypatch.setenv("SEALCAR_SOCKET", str(published.daemon.socket))
    options = ep.options()
    with pytest.raises(Exception, match="set SEALCAR_PACKAGE, SEALCAR_COMPONENT and"):
        options.register_custom_ops_library(library)
    for key, value in (("PACKAGE", "p"), ("COMPONENT", COMPONENT), ("VARIANT", "registered")):
        monkeypatch.setenv(f"SEALCAR_{key}", value)
    for _ in range(2):
        options = ep.options()
        options.register_custom_ops_library(library)
        if files:
            options.add_external_initializers_from_files_in_memory(
                list(files), list(files.values()), [len(each) for each in files.values()]
            )
        answer = loaded(model, options).run(None, models.sample_input())[0]
        published.assert_answer(answer)
    monkeypatch.setenv("SEALCAR_GENERATION", "1x")
    # not the newest one in its place
    with pytest.raises(Exception, match="SEALCAR_GENERATION must be a number in decimal digits"):
        ep.options().register_custom_ops_library(library)
    monkeypatch.delenv("SEALCAR_GENERATION")
    monkeypatch.setenv("SEALCAR_VARIANT", "none")
    with pytest.raises(Exception, match="opening of p/main/none: variant 'none' doesn't exist"):
        ep.options().register_custom_ops_library(library)
