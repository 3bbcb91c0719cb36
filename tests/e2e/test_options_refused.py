"""One test a row: with a real provider in the session, a refused option ends before decryption."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import pytest
from support import disk, eps, flows, models
from support.daemon import Daemon

from sealcar import native
from sealcar.errors import PlaintextRefusedError, SealcarError
from sealcar.ort import compile as compile_variant
from sealcar.ort import configuration, load, set_read_callback
from sealcar.ort.abi import error_classes
from sealcar.ort.options import Refused, tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.client import Client
    from sealcar.ort.runtime import SessionOptions

SEED = flows.fresh_seed()
ROWS = [(name, row) for name in eps.NAMES for row in tables()[name].refused.values()]
SESSION_ROWS = list(tables()["session"].refused.values())


class Sealed:
    """A daemon with one compiled variant for each provider, and a client of it."""

    def __init__(self, daemon: Daemon, client: Client, work: Path, plain: bytes) -> None:
        self.daemon = daemon
        self.client = client
        self.work = work
        self.plaintexts = {"weights": plain}
        self.watch = disk.Watch(allowed=daemon.folder, private=work)

    def assert_refused(self, option: str, variant: str, options: SessionOptions) -> None:
        """Assert that nothing is loaded or compiled with these options, or decrypted for them."""
        before = flows.decrypted(self.daemon)
        scope = self.client.scope("p", "main", variant)
        for attempt in (
            lambda: load(self.client, "p", variant=variant, session_options=options),
            lambda: compile_variant(
                self.client, "p", source="onnx", variant="new", session_options=options
            ),
            lambda: set_read_callback(options, scope),
        ):
            with pytest.raises(SealcarError, match=option) as caught:
                attempt()
            assert isinstance(caught.value, PlaintextRefusedError) or "weightless" in str(
                caught.value
            )
        assert flows.decrypted(self.daemon) == before
        assert list(self.work.iterdir()) == []


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    """Give the daemon that all rows share."""
    folder = tmp_path_factory.mktemp("options")
    work = folder / "work"
    work.mkdir()
    plain = models.split_model(128, seed=SEED)
    with Daemon(folder) as daemon, daemon.connect() as client:
        flows.publish_model(client, folder / "s", "p", model=plain)
        yield Sealed(daemon, client, work, plain)


@pytest.fixture(autouse=True)
def _in_work(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sealed.work)


def compiled(sealed: Sealed, name: str) -> str:
    """Compile the model for a provider, once."""
    ep = eps.require(name)
    detail = sealed.client.catalogue.get("p")
    if name not in {each.variant for each in detail.variants}:
        compile_variant(
            sealed.client, "p", source="onnx", variant=name, session_options=ep.options()
        )
    return name


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda v: getattr(v, "option", v))
def test_a_providers_option(name: str, row: Refused, sealed: Sealed) -> None:
    ep = eps.require(name)
    options = eps.quiet_options()
    settings = {**ep.settings, row.option: "1"}
    options.add_provider_for_devices([ep.device], settings)
    sealed.assert_refused(row.option, compiled(sealed, name), options)


@pytest.mark.parametrize("row", SESSION_ROWS, ids=lambda row: row.option)
def test_an_option_of_the_runtime(row: Refused, sealed: Sealed) -> None:
    options = eps.require("qnn").options()
    options.add_session_config_entry(row.option, "1")
    sealed.assert_refused(row.option, compiled(sealed, "qnn"), options)


@pytest.mark.parametrize(
    ("attribute", "value", "option"),
    [
        ("optimized_model_filepath", "plain.onnx", "session.optimized_model_filepath"),
        ("enable_profiling", True, "session.enable_profiling"),
    ],
)
def test_an_attribute_that_writes_files(
    attribute: str, value: object, option: str, sealed: Sealed
) -> None:
    options = eps.require("qnn").options()
    setattr(options, attribute, value)
    sealed.assert_refused(option, compiled(sealed, "qnn"), options)


def test_an_option_of_an_unknown_provider_given_by_name(sealed: Sealed) -> None:
    before = flows.decrypted(sealed.daemon)
    with pytest.raises(PlaintextRefusedError, match="cache_path"):
        load(sealed.client, "p", variant="onnx", providers=[("UnheardOf", {"cache_path": "x"})])
    assert flows.decrypted(sealed.daemon) == before


def test_an_option_of_an_unknown_provider_among_the_entries(sealed: Sealed) -> None:
    options = eps.require("qnn").options()
    options.add_session_config_entry("ep.unheardof.cache_path", "x")
    sealed.assert_refused("cache_path", compiled(sealed, "qnn"), options)


def test_entries_are_read_as_they_were_set(sealed: Sealed) -> None:
    ep = eps.require("qnn")
    options = ep.options()
    options.add_session_config_entry("acme.own", "ü=1")
    entries = configuration.entries_of(options)
    prefix = f"ep.{ep.name.lower()}."
    assert entries.items() >= {f"{prefix}{k}": v for k, v in ep.settings.items()}.items()
    assert entries["acme.own"] == "ü=1"
    assert list(sealed.work.iterdir()) == []


def test_without_the_native_part_the_entries_that_a_table_knows_are_found_all_the_same(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = compiled(sealed, "qnn")
    ep = eps.require("qnn")
    options = eps.quiet_options()
    options.add_provider_for_devices([ep.device], {**ep.settings, "dump_json_qnn_graph": "1"})
    monkeypatch.setattr(native, "library", lambda: None)
    assert configuration.entries_of(options)["ep.qnnexecutionprovider.dump_json_qnn_graph"] == "1"
    sealed.assert_refused("dump_json_qnn_graph", variant, options)


def test_a_caller_who_allows_plaintext_files_gets_them_and_the_search_finds_the_weights(
    sealed: Sealed,
) -> None:
    options = eps.quiet_options()
    options.optimized_model_filepath = "plain.onnx"
    load(
        sealed.client,
        "p",
        variant="onnx",
        session_options=options,
        providers=["CPUExecutionProvider"],
        allow_plaintext_files=True,
    )
    written = sealed.work / "plain.onnx"
    assert disk.runs([str(written)], sealed.plaintexts)
    written.unlink()


@pytest.mark.parametrize(
    ("name", "settings", "weights"),
    [
        ("qnn", {"dump_json_qnn_graph": "1"}, False),
        ("qnn", {"dump_qnn_ep_input_graph": "1"}, False),
        ("qnn", {"dump_qnn_ir_dlc": "1", "dump_qnn_ir_dlc_dir": "dlc"}, False),
        ("qnn", {"enable_framework_op_trace": "1"}, False),
        ("qnn", {"profiling_level": "detailed", "profiling_file_path": "profile.csv"}, False),
        ("qnn", {"backend_type": "saver"}, False),
        ("openvino", {"dump_subgraphs": "0"}, True),
        ("openvino", {"load_config": '{"CPU": {"CACHE_DIR": "cache"}}'}, True),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_row_tells_the_truth(
    name: str, settings: dict[str, str], *, weights: bool, sealed: Sealed
) -> None:
    ep = eps.require(name)
    options = eps.quiet_options()
    options.add_provider_for_devices([ep.device], {**ep.settings, **settings})
    with contextlib.suppress(*error_classes()):
        session = load(
            sealed.client,
            "p",
            variant="onnx",
            session_options=options,
            allow_plaintext_files=True,
        )
        session.run(None, models.sample_input(128))
    written = disk.files_below(sealed.work)
    assert written
    if weights:
        assert disk.runs(written, sealed.plaintexts)
    for entry in sealed.work.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        (name, row.option, value)
        for name in (*eps.NAMES, "session")
        for row in tables()[name].refused.values()
        for value in sorted(row.off)
    ],
)
def test_a_value_that_switches_an_option_off_is_taken_and_writes_nothing(
    name: str, option: str, value: str, sealed: Sealed
) -> None:
    ep = eps.require("qnn" if name == "session" else name)
    options = eps.quiet_options()
    own = {} if name == "session" else {option: value}
    options.add_provider_for_devices([ep.device], {**ep.settings, **own})
    if name == "session":
        options.add_session_config_entry(option, value)
    # not every backend is on this machine
    with contextlib.suppress(*error_classes()):
        session = load(sealed.client, "p", variant="onnx", session_options=options)
        session.run(None, models.sample_input(128))
    assert list(sealed.work.iterdir()) == []


def test_of_all_that_was_refused_nothing_reached_a_disk(sealed: Sealed) -> None:
    sealed.watch.assert_nothing_plain(sealed.plaintexts)
