"""What `load` does beyond the flows: plain variants, lifetimes, options of packages, threads."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from support import eps, flows, models

from sealcar.errors import (
    InvalidPackageError,
    InvalidRequestError,
    RuntimeSupportError,
    WrongStateError,
)
from sealcar.ort import clear_read_callback, load, runtime, set_read_callback
from sealcar.ort import compile as compile_variant
from sealcar.ort.configuration import PackageOptionWarning

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon

    from sealcar.client import Client

CPU = ("CPUExecutionProvider",)


def commit(client: Client, variant: str, model: bytes, **ort: object) -> None:
    with client.begin("p", "main", variant) as transaction:
        transaction.write("model.onnx", model, "model")
        transaction.commit(executor_info={"ort": {"model_file": "model.onnx", **ort}})


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_variant_that_is_not_compiled_loads_with_any_provider(
    name: str, daemon: Daemon, tmp_path: Path
) -> None:
    ep = eps.require(name)
    whole = flows.leftover_model(seed=flows.fresh_seed())
    model, weights = flows.moved_out(whole)
    want = flows.on_cpu(whole.SerializeToString(), models.sample_input())
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=model, weights=weights)
        for session in (
            load(client, "p", providers=CPU),
            load(client, "p", session_options=ep.options()),
        ):
            flows.assert_equal_answers(session.run(None, models.sample_input())[0], want)


@pytest.mark.parametrize("initializers", ["private", "shared"])
def test_a_session_runs_on_while_its_daemon_restarts_and_another_can_be_made_then(
    daemon: Daemon, tmp_path: Path, initializers: Literal["private", "shared"]
) -> None:
    model, weights = flows.moved_out(flows.leftover_model(seed=1))
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=model, weights=weights)
        session = load(client, "p", providers=CPU, initializers=initializers)
        want = session.run(None, models.sample_input())[0]
        daemon.kill()
        assert np.array_equal(session.run(None, models.sample_input())[0], want)
        daemon.start()
        for one in (session, load(client, "p", providers=CPU, initializers=initializers)):
            assert np.array_equal(one.run(None, models.sample_input())[0], want)


def test_a_session_outlives_the_client_and_its_model_is_gone_from_python(
    daemon: Daemon, tmp_path: Path
) -> None:
    model, weights = flows.moved_out(flows.leftover_model(seed=1))
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=model, weights=weights)
        options = eps.quiet_options()
        session = load(client, "p", session_options=options, providers=CPU)
    before = session.run(None, models.sample_input())[0]
    alive = weakref.ref(options)
    del options
    gc.collect()
    # with the options, the weights that were lent to the runtime are gone
    assert alive() is None
    np.testing.assert_array_equal(session.run(None, models.sample_input())[0], before)
    assert isinstance(session, runtime.onnxruntime().InferenceSession)
    assert session._model_bytes == b""
    with pytest.raises(RuntimeSupportError, match="load it again"):
        session.set_providers(["CPUExecutionProvider"])


def test_options_serve_one_model_with_external_weights(daemon: Daemon, tmp_path: Path) -> None:
    model, weights = flows.moved_out(flows.leftover_model(seed=1))
    options = eps.quiet_options()
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=model, weights=weights)
        load(client, "p", session_options=options, providers=CPU)
        with pytest.raises(WrongStateError, match="make new ones"):
            load(client, "p", session_options=options, providers=CPU)


def test_an_ambiguous_variant_is_refused_with_the_names(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        commit(client, "other", models.split_model())
        with pytest.raises(InvalidRequestError, match="onnx, other; name the variant"):
            load(client, "p", providers=CPU)


def test_harmless_options_of_a_package_are_applied_where_the_caller_is_silent(
    daemon: Daemon, tmp_path: Path
) -> None:
    chosen = {"session.intra_op_num_threads": "1", "session.disable_prepacking": "1"}
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        commit(client, "tuned", models.split_model(), session_options=chosen)
        options = eps.quiet_options()
        load(client, "p", variant="tuned", session_options=options, providers=CPU)
        assert options.intra_op_num_threads == 1
        assert options.get_session_config_entry("session.disable_prepacking") == "1"

        options = eps.quiet_options()
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.disable_prepacking", "0")
        load(client, "p", variant="tuned", session_options=options, providers=CPU)
        assert options.intra_op_num_threads == 2
        assert options.get_session_config_entry("session.disable_prepacking") == "0"


def test_options_of_a_package_that_make_no_sense_are_refused(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        for chosen in (
            {"session.intra_op_num_threads": "many"},
            {"session.graph_optimization_level": "most"},
            {"session.enable_mem_pattern": "perhaps"},
            {"session.disable_prepacking": 1},
            "all",
        ):
            commit(client, "odd", models.split_model(), session_options=chosen)
            with pytest.raises(InvalidPackageError):
                load(client, "p", variant="odd", providers=CPU)


def test_options_of_a_package_that_write_files_are_dropped_and_named(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require("qnn")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    session = {"session.optimized_model_filepath": "plain.onnx", "session.enable_profiling": "1"}
    provider = {"dump_json_qnn_graph": "1", "backend_path": "evil.so", "vtcm_mb": "4"}
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        with client.begin("p", "main", "evil") as transaction:
            transaction.write("model.onnx", models.split_model(), "model")
            ort = {"session_options": session, "provider_options": provider}
            transaction.commit(ep=ep.name, executor_info={"ort": ort})
        options = ep.options()
        # even to a caller who allows himself everything
        with pytest.warns(PackageOptionWarning) as caught:
            load(client, "p", variant="evil", session_options=options, allow_plaintext_files=True)
    (warning,) = caught
    dropped = [*session, "dump_json_qnn_graph", "backend_path"]
    assert all(option in str(warning.message) for option in dropped)
    assert "vtcm_mb" not in str(warning.message)
    assert options.get_session_config_entry("ep.qnnexecutionprovider.vtcm_mb") == "4"
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("name", eps.NAMES)
def test_several_threads_load_several_variants(name: str, daemon: Daemon, tmp_path: Path) -> None:
    ep = eps.require(name)
    plain = [models.split_model(seed=seed) for seed in range(3)]
    want = [flows.on_cpu(model, models.sample_input()) for model in plain]
    with daemon.connect() as client:
        for number, model in enumerate(plain):
            flows.publish_model(client, tmp_path / f"s{number}", f"p{number}", model=model)
            compile_variant(
                client,
                f"p{number}",
                source="onnx",
                variant="compiled",
                session_options=ep.options(),
            )

        def answer(number: int) -> runtime.Untyped:
            options = ep.options()
            package = f"p{number % 3}"
            session = load(client, package, variant="compiled", session_options=options)
            return session.run(None, models.sample_input())[0]

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(answer, range(12)))
    for number, got in enumerate(answers):
        flows.assert_equal_answers(got, want[number % 3])


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_session_made_by_hand_reads_its_blobs_until_the_callback_is_cleared(
    name: str, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ep = eps.require(name)
    monkeypatch.chdir(tmp_path)
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        scope = compile_variant(
            client, "p", source="onnx", variant="c", session_options=ep.options()
        )
        (model,) = (scope.read(one.name) for one in scope.payloads if one.kind == "model")
        options = ep.options()
        set_read_callback(options, scope)
        runtime.onnxruntime().InferenceSession(model, options, enable_fallback=0)
        clear_read_callback(options)
        with pytest.raises(Exception, match=r".+"):
            runtime.onnxruntime().InferenceSession(model, options, enable_fallback=0)
