"""What must not become a session: each is one error, from a real package in a real store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto
from support import eps, flows, models, plain_packages

from sealcar.errors import InvalidPackageError, NotAuthenticError, NotFoundError
from sealcar.ort import compile as compile_variant
from sealcar.ort import load
from sealcar.ort.sources import BLOB, INITIALIZERS, SealedSource

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


def test_a_variant_whose_model_names_what_is_no_payload_is_never_published(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        for location in LOCATIONS:
            with pytest.raises(InvalidPackageError, match="tensor 'w0'"):
                commit(client, "bad", pointing_at(location))
        with pytest.raises(InvalidPackageError, match="model"):
            commit(client, "bad", b"\xff" * 1000)
        with pytest.raises(NotFoundError):
            load(client, "p", component="main", variant="bad", providers=CPU)


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_compiled_model_without_its_blob_is_never_published(
    name: str, daemon: Daemon, tmp_path: Path
) -> None:
    compiled, _ = plain_packages.compiled(eps.require(name), models.split_model())
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        with pytest.raises(InvalidPackageError, match="EPContext node"):
            commit(client, "bad", compiled)


def test_what_a_model_names_is_looked_up_among_payloads_of_its_kind_and_never_on_the_disk(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for decoy in ("x", "w", "b"):
        (tmp_path / decoy).write_bytes(b"decoy")
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        with client.begin("p", "main", "v") as transaction:
            transaction.write("model.onnx", models.split_model(), "model")
            transaction.write("model.bin", models.split_model(), "other")
            transaction.write("w", b"w", "other")
            transaction.write("sub/w", b"w", "initializers")
            transaction.write("b", b"b", "blob")
            transaction.commit(executor_info={"ort": {"model_file": "model.bin"}})
        source = SealedSource(client.scope("p", "main", "v"))
        for folder, name, kind in (("", "sub/../w", INITIALIZERS), ("sub/", "w", INITIALIZERS)):
            assert source.read(source.beside(folder, name, kind)) == b"w"
        assert source.read(source.beside("", "./b", BLOB)) == b"b"
        for folder in ("", "sub/"):
            for name in ("x", "b", "../w", "/w", "", ".", "..", "sub", "../v/w"):
                with pytest.raises(InvalidPackageError, match="Runtime would look for it on the d"):
                    source.beside(folder, name, INITIALIZERS)
        for name in ("w", "model.onnx", "x"):
            with pytest.raises(InvalidPackageError, match="provider would look for it on the disk"):
                source.beside("", name, BLOB)
        # what wasn't looked at as a model isn't one
        with pytest.raises(InvalidPackageError, match="model_file"):
            load(client, "p", variant="v", providers=CPU)


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
