"""What must not be published: a compilation ends whole, or leaves nothing behind."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import eps, flows, models
from support.daemon import environment

from sealcar.errors import (
    AlreadyExistsError,
    InvalidNameError,
    InvalidRequestError,
    NotFoundError,
    RuntimeSupportError,
)
from sealcar.ort import compile as compile_variant
from sealcar.ort import load, runtime, set_write_callback
from sealcar.ort.adapters import FIRST_STABLE, registrar
from sealcar.ort.callbacks import Compilation
from sealcar.ort.scopes import BlobWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.daemon import Daemon

    from sealcar.client import Client


@pytest.fixture
def client(daemon: Daemon, tmp_path: Path) -> Iterator[Client]:
    """Give a client of a daemon that has one model."""
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        yield client


def assert_nothing_made(client: Client, variant: str = "compiled") -> None:
    with pytest.raises(NotFoundError):
        _ = client.scope("p", "main", variant).payloads
    assert client.scope("p", "main", "onnx").generation == 1


def unsupporting(daemon: Daemon, work: Path, step: str) -> str:
    """Run one step in a process whose plugin can't find the callbacks; return what it says."""
    command = [sys.executable, "-m", "support.unsupporting_program", str(daemon.socket), step]
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        command, env=environment(path), cwd=work, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_a_provider_that_ignores_the_callbacks_is_found_out_before_decryption_and_can_embed(
    client: Client, daemon: Daemon, tmp_path: Path
) -> None:
    eps.module("qnn")
    work = tmp_path / "work"
    work.mkdir()
    said = unsupporting(daemon, work, "compile")
    assert said.startswith("RuntimeSupportError")
    assert "embed=True" in said
    assert flows.decrypted(daemon) == 0
    assert_nothing_made(client, "embedded")

    assert unsupporting(daemon, work, "embed") == "done"
    assert {one.kind for one in client.scope("p", "main", "embedded").payloads} == {"model"}
    assert list(work.iterdir()) == []


def test_a_provider_that_ignores_the_callbacks_never_loads_from_a_plain_file(
    client: Client, daemon: Daemon, tmp_path: Path
) -> None:
    options = eps.require("qnn").options()
    made = compile_variant(client, "p", source="onnx", variant="compiled", session_options=options)
    (blob,) = (one.name for one in made.payloads if one.kind == "blob")
    work = tmp_path / "work"
    work.mkdir()
    (work / blob).write_bytes(made.read(blob))
    before = flows.decrypted(daemon)
    said = unsupporting(daemon, work, "load")
    assert said.startswith("RuntimeSupportError")
    assert "embed=True" in said
    if runtime.version() >= FIRST_STABLE:
        assert flows.decrypted(daemon) == before


def test_a_compilation_in_which_no_node_was_compiled_is_not_published(client: Client) -> None:
    with pytest.raises(Exception, match=r"(?i)unable to compile any nodes|no node"):
        compile_variant(
            client,
            "p",
            source="onnx",
            variant="compiled",
            session_options=eps.quiet_options(),
        )
    assert_nothing_made(client)


@pytest.mark.parametrize("key", ["ep.enable_weightless", "ep.enable_weightless_ep_context_nodes"])
def test_weightless_compilation_is_refused_by_name(
    key: str, client: Client, daemon: Daemon
) -> None:
    options = eps.require("openvino").options()
    options.add_session_config_entry(key, "1")
    with pytest.raises(RuntimeSupportError, match=f"weightless compilation .{key}"):
        compile_variant(
            client,
            "p",
            source="onnx",
            variant="compiled",
            session_options=options,
            allow_plaintext_files=True,
        )
    assert flows.decrypted(daemon) == 0
    assert_nothing_made(client)


def test_a_second_blob_of_one_name_is_refused_by_name(client: Client) -> None:
    data = ctypes.create_string_buffer(b"blob", 4)
    with client.begin("p", "main", "compiled") as transaction:
        write = BlobWriter(transaction)
        write("model_qnn.bin", ctypes.addressof(data), 4)
        with pytest.raises(AlreadyExistsError, match=r"'model_qnn\.bin' a second time"):
            write("model_qnn.bin", ctypes.addressof(data), 4)
        assert write.names == {"model_qnn.bin"}
    assert_nothing_made(client)


def test_a_provider_that_writes_a_name_again_ends_the_compilation(client: Client) -> None:
    data = ctypes.create_string_buffer(b"blob", 4)
    with client.begin("p", "main", "compiled") as transaction:
        write = BlobWriter(transaction)
        write("model_qnn.bin", ctypes.addressof(data), 4)
        job = Compilation(models.split_model(), lambda _address, _size: None, write=write)
        with pytest.raises(Exception, match=r"'model_qnn\.bin' a second time") as caught:
            registrar().compile(eps.require("qnn").options(), job)
    assert isinstance(caught.value.__cause__, AlreadyExistsError)
    assert_nothing_made(client)


def test_a_name_that_can_not_be_a_blobs_is_refused(client: Client) -> None:
    data = ctypes.create_string_buffer(b"blob", 4)
    with client.begin("p", "main", "compiled") as transaction:
        for name in ("../x", "a/b", "", ".hidden", "manifest.json", "x" * 300, "ü"):
            with pytest.raises(InvalidNameError):
                BlobWriter(transaction)(name, ctypes.addressof(data), 4)
        assert transaction.names == ()


@pytest.mark.parametrize("name", eps.NAMES)
def test_what_is_compiled_already_is_no_source(name: str, client: Client) -> None:
    ep = eps.require(name)
    compile_variant(client, "p", source="onnx", variant="once", session_options=ep.options())
    with pytest.raises(InvalidRequestError, match="compiled already"):
        compile_variant(client, "p", source="once", variant="twice", session_options=ep.options())
    with pytest.raises(InvalidRequestError, match="into itself"):
        compile_variant(client, "p", source="onnx", variant="onnx", session_options=ep.options())


def test_a_callback_that_fails_ends_in_the_runtimes_own_error_with_our_text(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ort = runtime.onnxruntime()
    if not hasattr(ort.ModelCompiler, "set_ep_context_data_write_func"):
        pytest.skip("this runtime's ModelCompiler has no write callback")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    compiler = ort.ModelCompiler(eps.require("qnn").options(), models.split_model())
    with client.begin("p", "main", "compiled") as transaction:
        set_write_callback(compiler, transaction)
        transaction.abort()
        with pytest.raises(Exception, match="this transaction has ended") as caught:
            compiler.compile_to_bytes()
    assert type(caught.value).__module__.startswith("onnxruntime.")
    assert "write: p@1/main/compiled/" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert list(work.iterdir()) == []


def test_a_compilation_made_by_hand_is_published_with_its_blobs(client: Client) -> None:
    ort = runtime.onnxruntime()
    if not hasattr(ort.ModelCompiler, "set_ep_context_data_write_func"):
        pytest.skip("this runtime's ModelCompiler has no write callback")
    ep = eps.require("qnn")
    compiler = ort.ModelCompiler(ep.options(), models.split_model())
    with client.begin("p", "main", "by-hand") as transaction:
        set_write_callback(compiler, transaction)
        model = compiler.compile_to_bytes()
        assert set(transaction.names) == models.blob_names(model)
        transaction.write("model.onnx", model, "model")
        transaction.commit(ep=ep.name, executor_info={"ort": {"model_file": "model.onnx"}})
    session = load(client, "p", variant="by-hand", session_options=ep.options())
    want = flows.on_cpu(models.split_model(), models.sample_input())
    flows.assert_equal_answers(session.run(None, models.sample_input())[0], want)
