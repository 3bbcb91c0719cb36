"""Models are looked at before a variant appears, by a real process each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.onnx_models import ep_context, inline, located, model, raw
from support.services import Running

from sealcar.errors import ExhaustedError, InternalError, InvalidPackageError, WrongStateError
from sealcar_server.sealing.values import RecordPayload
from sealcar_server.service import onlooker
from sealcar_server.service.checking import Staged, suspects
from sealcar_server.service.confined import ConfinedChecker
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = ScopeKey("ocr", "", "det", "fast")
DATA = bytes(range(64))
URI = "sha256:" + "5" * 64
FOLDER = "session.model_external_initializers_file_folder_path"
HONEST = raw(model(inline("W", [1, 2, 3, 4])))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("r")
    with Running(root, checker=ConfinedChecker(8 << 20, 30.0)) as running:
        running.import_(payloads={("det", "onnx", "model.onnx"): HONEST})
        yield running


def commit(running: Running, info: object = None, **payloads: tuple[str, bytes]) -> ScopeKey:
    transaction = running.begin(TARGET)
    for name, (kind, data) in payloads.items():
        running.write(transaction, name.replace("__", "."), data, kind)
    return running.commit(transaction, len(payloads), executor_info_json=json.dumps(info or {}))


def test_a_model_whose_references_are_all_written_is_published(running: Running) -> None:
    node = ep_context(ep_cache_context="engine.bin", embed_mode=0, main_context=1)
    proto = raw(model(located("w.bin"), nodes=[node]))
    written = commit(
        running,
        m=("model", proto),
        w__bin=("initializers", DATA),
        engine__bin=("blob", b"compiled"),
    )
    assert running.read(written, "m") == proto


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("model", b"no model", "wire type"),
        ("model", b"", "graph"),
        ("model", raw(model(located("../w.bin"))), "'W'"),
        ("model", raw(model(located("gone.bin"))), "leads to no file"),
        ("model", raw(model(located("w.bin", offset="8"))), "beyond"),
        ("model", raw(model(located("engine.bin"))), "of kind blob"),
        (
            "model",
            raw(model(nodes=[ep_context(ep_cache_context="no.bin", embed_mode=0)])),
            "not stored with the model",
        ),
    ],
)
def test_a_model_that_leads_elsewhere_is_refused_and_its_transaction_ends(
    running: Running, kind: str, data: bytes, text: str
) -> None:
    transaction = running.begin(TARGET)
    running.write(transaction, "w.bin", DATA[:16], "initializers")
    running.write(transaction, "engine.bin", DATA, "blob")
    running.write(transaction, "m", data, kind)
    with pytest.raises(InvalidPackageError, match=text) as refused:
        running.commit(transaction, 3)
    assert refused.value.place.payload == "m"
    assert refused.value.place.variant == "fast"
    assert transaction.ended
    assert not any((running.store_path / ".staging").glob("*"))
    with pytest.raises(WrongStateError):
        running.commit(transaction, 3)


def test_what_onnx_runtime_is_told_to_load_is_looked_at_whatever_its_kind(
    running: Running,
) -> None:
    info = {"ort": {"model_file": "./sub/../trap.bin"}}
    with pytest.raises(InvalidPackageError, match="'W'"):
        commit(
            running,
            info,
            m=("model", HONEST),
            trap__bin=("other", raw(model(located("/etc/passwd")))),
        )


def test_a_model_in_the_runtimes_own_format_is_told_apart_and_not_both(running: Running) -> None:
    assert commit(running, m=("model", b"\x1c\0\0\0ORTM" + bytes(64)))
    # also an ONNX model whose producer is called ORTM
    with pytest.raises(InvalidPackageError, match="taken for"):
        commit(running, m=("model", b"\x08\x07\x12\x04ORTM" + HONEST))


def test_a_model_over_the_limit_is_refused_with_the_setting(running: Running) -> None:
    with pytest.raises(InvalidPackageError, match=r"limits\.checked_model"):
        commit(running, m=("model", bytes((8 << 20) + 1)))


def test_a_look_that_takes_too_long_is_refused_with_the_setting(tmp_path: Path) -> None:
    with (
        Running(tmp_path, checker=ConfinedChecker(8 << 20, 0.001)) as hasty,
        pytest.raises(InvalidPackageError, match=r"limits\.check_time"),
    ):
        hasty.import_(payloads={("det", "onnx", "model.onnx"): HONEST})


@pytest.mark.parametrize(
    ("program", "kind", "text"),
    [
        ("raise SystemExit(3)", InternalError, "failed with status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", InternalError, "SIGSEGV"),
        ("print('yes')", InternalError, "answer"),
        ("print('{}')", InternalError, "answers"),
        ('print(\'{"filtered": 1, "refused": null}\')', InternalError, "answers"),
        ('print(\'{"filtered": true, "refused": []}\')', InternalError, "answers"),
        ("print('[' * 4000)", InternalError, "answer"),
        ("print('x' * 100_000)", InternalError, "too much"),
        (
            'print(\'{"filtered": true, "refused": {"job": 7, "reason": "x"}}\')',
            InternalError,
            "answers",
        ),
        (
            'print(\'{"filtered": true, "refused": {"job": 0, "reason": "\\\\u001b[2J"}}\')',
            InternalError,
            "answers",
        ),
        ("import time; print('{', flush=True); time.sleep(60)", InvalidPackageError, "check_time"),
        ("import os, time; os.close(1); time.sleep(60)", InvalidPackageError, "check_time"),
    ],
)
def test_whatever_a_process_that_was_taken_over_does_nothing_is_published(
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    kind: type[Exception],
    text: str,
) -> None:
    monkeypatch.setattr(onlooker, "_COMMAND", (onlooker._COMMAND[0], "-I", "-c", program))
    checker = ConfinedChecker(8 << 20, 0.4 if "sleep" in program else 30.0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    payload = RecordPayload("m", "model", len(HONEST))
    transaction = running.begin(TARGET)
    running.write(transaction, "m", HONEST)
    written = next(iter(transaction._written.values()))

    def opening(*_: object) -> object:
        return running.payloads._publisher._check._written(transaction, written, running.scratch)

    staged = [Staged([payload], "det", "fast")]
    with pytest.raises(kind, match=text) as refused:
        checker.check(staged, opening, running.scratch)  # type: ignore[arg-type]  # the real reader
    assert str(refused.value).isprintable()
    transaction.abort()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_an_interpreter_that_cannot_be_started_is_a_typed_error(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onlooker, "_COMMAND", ("/nowhere/python",))
    with pytest.raises(ExhaustedError, match="can be started") as refused:
        commit(running, m=("model", HONEST))
    # where the daemon's programs lie is nobody else's business
    assert "nowhere" not in str(refused.value)


def staged(*names: tuple[str, str], asset: str = "", info: object = None) -> Staged:
    payloads = [RecordPayload(name, kind, 64) for name, kind in names]
    scope = ("", "") if asset else ("det", "fast")
    return Staged(payloads, *scope, asset, executor_info={"ort": info or {}})  # type: ignore[dict-item]


def test_a_model_in_a_shared_asset_finds_its_data_there_or_where_the_option_leads() -> None:
    weights = staged(("w.bin", "initializers"), asset=URI)
    info = {"model_file": "m.onnx", "session_options": {FOLDER: URI}}
    (found,) = suspects([staged(("m.onnx", "model"), info=info), weights])
    assert ["w.bin" in folder.files for folder in found.data] == [False, True]

    shared = staged(("in/m.onnx", "model"), ("in/w.bin", "initializers"), asset=URI)
    (alone,) = suspects([shared])
    assert [folder.prefix for folder in alone.data] == ["in"]
    info = {"model_file": f"{URI}/in/m.onnx", "session_options": {FOLDER: "../up"}}
    (led,) = suspects([staged(("x", "other"), info=info), shared])
    assert led.owner is shared
    assert [folder.prefix for folder in led.data] == ["in"]


def test_a_reference_to_an_asset_that_is_not_there_leads_to_its_private_copy() -> None:
    copy = URI.replace(":", "-")
    info = {"model_file": f"{URI}/m.onnx"}
    (found,) = suspects([staged((f"{copy}/m.onnx", "other"), info=info)])
    assert found.payload.name == f"{copy}/m.onnx"


def test_a_shared_model_is_looked_at_once_for_all_variants_from_where_it_leads_alike() -> None:
    shared = staged(("m.onnx", "model"), ("w.bin", "initializers"), asset=URI)
    info = {"model_file": f"{URI}/m.onnx"}
    variants = [staged(info=info) for _ in range(5)]
    assert [one.owner for one in suspects([*variants, shared])] == [shared]
    other = staged(("engine.bin", "blob"), info=info)
    assert len(list(suspects([*variants, other, shared]))) == 2
