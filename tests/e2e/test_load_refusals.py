"""What must not become a session: each is one error, from a real package in a real store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto
from support import eps, flows, models

from sealcar.errors import InvalidPackageError, NotAuthenticError, NotFoundError
from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon

    from sealcar.client import Client

CPU = ("CPUExecutionProvider",)
# the last one is how the runtime itself means an address in memory
LOCATIONS = ("w.bin", "./w.bin", "sub/../w.bin", "../w.bin", "*/_ORT_MEM_ADDR_/*")


def pointing_at(location: str) -> bytes:
    """Return a model whose weights lie in a file of that name."""
    model = onnx.load_from_string(models.split_model())
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return bytes(model.SerializeToString())


def commit(client: Client, variant: str, model: bytes) -> None:
    with client.begin("p", "main", variant) as transaction:
        transaction.write("model.onnx", model, "model")
        transaction.commit(executor_info={"ort": {"model_file": "model.onnx"}})


def test_external_weights_that_are_no_payload_are_never_taken_from_the_disk(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    monkeypatch.chdir(work)
    for decoy in (work / "w.bin", tmp_path / "w.bin"):
        decoy.write_bytes(bytes(models.WIDTH**2 * 4))
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        for location in LOCATIONS:
            commit(client, "bad", pointing_at(location))
            with pytest.raises(InvalidPackageError, match="look for it on the disk") as caught:
                load(client, "p", variant="bad", providers=CPU)
            assert str(caught.value).startswith("open: p@1/main/bad/model.onnx: ")


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_compiled_model_without_its_blob_is_refused_though_a_plain_file_has_its_name(
    name: str, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require(name)
    monkeypatch.chdir(tmp_path)
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        made = compile_variant(
            client, "p", source="onnx", variant="c", session_options=ep.options()
        )
        (blob,) = (one.name for one in made.payloads if one.kind == "blob")
        (tmp_path / blob).write_bytes(made.read(blob))
        commit(client, "bad", made.read("model.onnx"))
        with pytest.raises(InvalidPackageError, match="isn't in the variant"):
            load(client, "p", variant="bad", session_options=ep.options())


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_blob_that_is_damaged_ends_in_the_runtimes_own_error_with_our_text(
    name: str, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require(name)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model(256))
        made = compile_variant(
            client, "p", source="onnx", variant="c", session_options=ep.options()
        )
        (blob,) = (one.name for one in made.payloads if one.kind == "blob")
        plain = made.read(blob)
    (sealed,) = daemon.store.glob(f"p/1/g/{made.generation}/main/c/{blob}")
    damage(sealed)
    # what a provider without callbacks would have used
    (work / blob).write_bytes(plain)
    with daemon.connect() as client:
        with pytest.raises(Exception, match="NotAuthentic") as caught:
            load(client, "p", variant="c", session_options=ep.options())
        assert type(caught.value).__module__.startswith("onnxruntime.")
        assert isinstance(caught.value.__cause__, NotAuthenticError)
        text = str(caught.value)
        assert f"p@1/main/c/{blob}" in text
        assert "Traceback" not in text
        # and the next request is served
        want = flows.on_cpu(models.split_model(256), models.sample_input(256))
        session = load(client, "p", variant="onnx", providers=CPU)
        flows.assert_equal_answers(session.run(None, models.sample_input(256))[0], want)


def damage(sealed: Path) -> None:
    """Change one bit in the middle of a ciphertext."""
    sealed.chmod(0o600)
    data = bytearray(sealed.read_bytes())
    data[len(data) // 2] ^= 1
    sealed.write_bytes(data)


def test_a_variant_that_names_no_model_of_its_own_is_refused(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        with client.begin("p", "main", "bad") as transaction:
            transaction.write("model.onnx", models.split_model(), "model")
            transaction.commit(executor_info={"ort": {"model_file": "../../etc/passwd"}})
        with pytest.raises(InvalidPackageError, match="model_file"):
            load(client, "p", variant="bad", providers=CPU)


def test_what_does_not_exist_is_not_found(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        for where in (("nothing", "main", "onnx"), ("p", "nothing", "onnx"), ("p", "main", "no")):
            package, component, variant = where
            with pytest.raises(NotFoundError):
                load(client, package, component=component, variant=variant, providers=CPU)


def test_what_is_no_model_is_refused_before_the_runtime_sees_it(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        commit(client, "bad", b"\xff" * 1000)
        with pytest.raises(InvalidPackageError):
            load(client, "p", variant="bad", providers=CPU)
