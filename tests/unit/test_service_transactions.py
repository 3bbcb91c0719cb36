"""A variant is written in a transaction: published whole, once, or not at all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.services import ME, MODEL, SOMEBODY, Running, everything_for

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidNameError,
    InvalidPackageError,
    InvalidRequestError,
    NotFoundError,
    SealcarError,
    WrongStateError,
)
from sealcar_server.service.assembly import Limits
from sealcar_server.service.values import CommitValues, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QNN = ScopeKey("ocr", "", "det", "qnn")
ONNX = ScopeKey("ocr", "", "det", "onnx")
FILES = {("det", "onnx", "model.onnx"): MODEL, ("rec", "onnx", "model.onnx"): b"rec"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    policy = everything_for(ME.uid, SOMEBODY.uid)
    limits = Limits(transaction_ttl=0.0, transactions=4)
    with Running(tmp_path, policy=policy, limits=limits) as running:
        running.import_(payloads=FILES)
        yield running


def staged(running: Running) -> int:
    return len(list((running.store_path / ".staging").iterdir()))


def test_a_commit_adds_a_variant_and_keeps_the_others(running: Running) -> None:
    transaction = running.begin(QNN)
    assert (transaction.scope.version, transaction.scope.generation) == ("1", 1)
    running.write(transaction, "model.onnx", b"compiled")
    value = running.write(transaction, "qnn_0.bin", MODEL, "blob")
    assert (value.size, value.sealed, len(value.identity)) == (len(MODEL), True, 32)
    info = json.dumps({"ort": {"model_file": "model.onnx"}})
    scope = running.commit(
        transaction, 2, ep="QNN", device="npu", compatibility="v73", executor_info_json=info
    )
    assert scope == ScopeKey("ocr", "1", "det", "qnn", 2)
    variant = running.payloads.open(ME, QNN).variant
    assert (variant.ep, variant.device, variant.compatibility) == ("QNN", "npu", "v73")
    assert json.loads(variant.executor_info_json)["sealcar"] == {"format": "1"}
    assert [p.name for p in variant.payloads] == ["model.onnx", "qnn_0.bin"]
    assert running.read(QNN, "qnn_0.bin") == MODEL
    assert running.read(ONNX) == MODEL
    first, second = (running.generation(number=n) / "det/onnx/model.onnx" for n in (1, 2))
    assert first.samefile(second), "an unchanged payload is a hard link"
    assert running.packages.verify(ME, "ocr", "", 0, lambda *_: None).payloads == 4
    assert staged(running) == 0


def test_a_replaced_variant_keeps_its_place_and_loses_its_old_payloads(running: Running) -> None:
    running.add_variant(QNN)
    transaction = running.begin(ONNX)
    running.write(transaction, "other.onnx", b"new")
    running.commit(transaction)
    detail = running.looking.get(ME, "ocr")
    assert [(v.component, v.variant) for v in detail.variants] == [
        ("det", "onnx"),
        ("det", "qnn"),
        ("rec", "onnx"),
    ]
    assert [p.name for p in detail.variants[0].payloads] == ["other.onnx"]
    with pytest.raises(NotFoundError):
        running.read(ONNX)


def test_a_reader_of_the_old_generation_is_not_disturbed(running: Running) -> None:
    opened = running.payloads.open(ME, ONNX)
    with running.payloads.read(ME, opened.scope, "model.onnx", running.scratch) as source:
        transaction = running.begin(ONNX)
        running.write(transaction, "model.onnx", b"new")
        running.commit(transaction)
        span = source.reader.read_segment(0, running.scratch)
        assert running.scratch.plain[: span.plain_size] == MODEL[: span.plain_size]
    assert running.read(opened.scope) == MODEL
    assert running.read(ONNX) == b"new"


def test_a_repeated_commit_gets_the_first_answer(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    first = running.commit(transaction)
    assert running.commit(transaction) == first
    with pytest.raises(WrongStateError, match="committed"):
        running.payloads.abort(ME, transaction.id)
    with pytest.raises(WrongStateError, match="committed"):
        transaction.create("late.onnx", "model")


def test_commits_at_once_get_one_answer(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: running.commit(transaction), range(8)))
    assert {scope.generation for scope in answers} == {2}


def test_two_writers_of_different_variants_both_win(running: Running) -> None:
    one, two = running.begin(QNN), running.begin(ScopeKey("ocr", "", "rec", "cpu"))
    for transaction in (one, two):
        running.write(transaction, "model.onnx", transaction.scope.variant.encode())
    assert running.commit(two).generation == 2
    assert running.commit(one).generation == 3
    assert running.read(QNN) == b"qnn"
    assert running.read(ScopeKey("ocr", "", "rec", "cpu")) == b"cpu"


def test_of_two_writers_of_one_variant_the_second_conflicts(running: Running) -> None:
    one, two = running.begin(QNN), running.begin(QNN)
    for transaction in (one, two):
        running.write(transaction, "model.onnx", b"x")
    running.commit(one)
    with pytest.raises(ConflictError, match="'qnn' was changed") as caught:
        running.commit(two)
    assert (caught.value.place.phase, caught.value.place.variant) == ("publish", "qnn")
    running.payloads.abort(ME, two.id)
    assert staged(running) == 0


def test_an_older_base_conflicts_if_the_variant_changed_since(running: Running) -> None:
    running.add_variant(ScopeKey("ocr", "", "rec", "cpu"))
    running.add_variant(QNN)
    for scope, kind in [
        (ScopeKey("ocr", "1", "rec", "gpu", 1), None),
        (ScopeKey("ocr", "1", "det", "qnn", 1), ConflictError),
    ]:
        transaction = running.begin(scope)
        running.write(transaction, "model.onnx", b"x")
        if kind is None:
            running.commit(transaction)
        else:
            with pytest.raises(kind):
                running.commit(transaction)


def test_another_daemon_on_the_same_store_is_rebased_on(running: Running, tmp_path: Path) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    with Running(tmp_path) as other:
        other.add_variant(ScopeKey("ocr", "", "rec", "cpu"))
    assert running.commit(transaction).generation == 3
    assert running.read(ScopeKey("ocr", "", "rec", "cpu")) == b"compiled"


def test_many_writers_at_once_all_get_a_generation_of_their_own(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_(payloads={("det", "onnx", "model.onnx"): b"x"})

        def add(number: int) -> int:
            scope = ScopeKey("ocr", "", "det", f"v{number}")
            transaction = running.begin(scope)
            with transaction.create("model.onnx", "model", 0) as sink:
                # of this thread alone: a scratch is never shared
                from sealcar_server.sealing.scratch import Scratch  # noqa: PLC0415

                sink.writer.seal_segment(0, Scratch(), 0, last=True)
                sink.finish()
            return running.commit(transaction).generation

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(add, range(16))) == list(range(2, 18))
        assert running.packages.verify(ME, "ocr", "", 0, lambda *_: None).payloads == 17


def test_a_name_is_written_once(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    for name in ("model.onnx", "MODEL.onnx"):
        with pytest.raises(AlreadyExistsError) as caught:
            transaction.create(name, "model")
        assert caught.value.place.payload == name
    assert running.commit(transaction).generation == 2


def test_a_failed_payload_leaves_no_file_and_its_name_is_free(running: Running) -> None:
    transaction = running.begin(QNN)
    sink = transaction.create("model.onnx", "model", 4)
    running.scratch.plain[:3] = b"abc"
    sink.writer.seal_segment(0, running.scratch, 3, last=True)
    with pytest.raises(InvalidRequestError, match="3 bytes came, 4 were declared"):
        sink.finish()
    assert not list((running.store_path / ".staging").rglob("model.onnx"))
    running.write(transaction, "model.onnx", b"again")
    assert running.commit(transaction).generation == 2


def test_the_folders_of_a_failed_payload_are_free_again(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "kept/x.bin", b"x", "other")
    for name in ("data/a/model.onnx", "kept/model.onnx"):
        transaction.create(name, "model").abort()
    running.write(transaction, "data", b"x")
    assert running.commit(transaction, 2).generation == 2
    folder = running.generation(number=2) / "det/qnn"
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == [
        "data",
        "kept/x.bin",
    ]


def test_an_incomplete_payload_cannot_be_finished(running: Running) -> None:
    transaction = running.begin(QNN)
    with pytest.raises(WrongStateError, match="segment is missing"):
        transaction.create("model.onnx", "model", 4).finish()


def test_an_open_payload_keeps_the_transaction_from_being_committed(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    with (
        transaction.create("qnn.bin", "blob"),
        pytest.raises(WrongStateError, match="still being written"),
    ):
        running.commit(transaction)
    assert running.commit(transaction).generation == 2


@pytest.mark.parametrize(
    ("values", "finding"),
    [
        (CommitValues(2), "1 payloads were written, not 2"),
        (CommitValues(1, executor_info_json="[]"), "object of namespace to object"),
        (CommitValues(1, executor_info_json='{"ort": 1}'), "object of namespace to object"),
        (CommitValues(1, executor_info_json='{"a": {}, "a": {}}'), "stands twice"),
        (CommitValues(1, executor_info_json='{"sealcar": {}}'), "the daemon's"),
        (CommitValues(1, executor_info_json=json.dumps({"o": {"x": "y" * (1 << 20)}})), "1 MiB"),
        (CommitValues(1, ep="x" * 70_000), "ep must be"),
        (CommitValues(1, device="\ud800"), "device must be"),
    ],
)
def test_a_commit_that_breaks_a_rule_publishes_nothing(
    running: Running, values: CommitValues, finding: str
) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    with pytest.raises(InvalidRequestError, match=finding):
        running.payloads.commit(ME, transaction.id, values)
    assert running.store.newest("ocr", "1") == 1
    assert running.commit(transaction).generation == 2


def test_a_variant_without_a_model_is_refused(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "qnn.bin", b"x", "blob")
    with pytest.raises(InvalidRequestError, match="kind model"):
        running.commit(transaction)


@pytest.mark.parametrize(
    ("name", "kind", "error"),
    [
        ("../x", "model", InvalidNameError),
        ("a/b.bin", "blob", InvalidNameError),
        (".x", "blob", InvalidNameError),
        ("x" * 5000, "other", InvalidNameError),
        ("x", "unknown", InvalidRequestError),
        ("manifest.json", "other", InvalidNameError),
    ],
)
def test_a_bad_payload_is_refused_and_the_transaction_goes_on(
    running: Running, name: str, kind: str, error: type[SealcarError]
) -> None:
    transaction = running.begin(QNN)
    with pytest.raises(error):
        transaction.create(name, kind)
    running.write(transaction, "model.onnx", b"x")
    assert running.commit(transaction).generation == 2


@pytest.mark.parametrize(
    ("scope", "error"),
    [
        (ScopeKey("ocr", "", "nope", "qnn"), NotFoundError),
        (ScopeKey("nope", "", "det", "qnn"), NotFoundError),
        (ScopeKey("ocr", "", "det", "../x"), InvalidNameError),
        (ScopeKey("ocr", "", "det", "component.json"), InvalidNameError),
        (ScopeKey("ocr", "", "", "qnn"), InvalidNameError),
    ],
)
def test_a_bad_scope_begins_nothing(
    running: Running, scope: ScopeKey, error: type[SealcarError]
) -> None:
    with pytest.raises(error):
        running.begin(scope)
    assert staged(running) == 0


def test_what_could_not_be_opened_again_is_not_published(running: Running) -> None:
    # as deep as a value of its own may be, and deeper than that inside the manifest
    deep = '{"ort": ' + '{"x":' * 62 + "1" + "}" * 62 + "}"
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    with pytest.raises(InvalidPackageError, match="64 levels"):
        running.commit(transaction, executor_info_json=deep)
    assert running.store.newest("ocr", "1") == 1
    assert running.commit(transaction).generation == 2


def test_a_manifest_does_not_grow_by_its_depth(running: Running) -> None:
    nested = "[" * 50 + ",".join(["0"] * 10_000) + "]" * 50
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    running.commit(transaction, executor_info_json=f'{{"ort": {{"x": {nested}}}}}')
    assert (running.generation(number=2) / "manifest.json").stat().st_size < 50_000
