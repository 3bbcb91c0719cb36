"""A transaction ends with whoever it belongs to, and leaves nothing."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from support.exhaustion import no_descriptor_left
from support.raw_clients import descriptors, until
from support.services import ME, MODEL, SOMEBODY, Running, everything_for

from sealcar.errors import (
    ConflictError,
    DeniedError,
    ExhaustedError,
    LockedError,
    NotFoundError,
    WrongStateError,
)
from sealcar_server.access.permit import RENEWED_AFTER
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.service.assembly import Limits
from sealcar_server.service.values import CommitValues, ScopeKey
from sealcar_server.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QNN = ScopeKey("ocr", "", "det", "qnn")
ONNX = ScopeKey("ocr", "", "det", "onnx")
FILES = {("det", "onnx", "model.onnx"): MODEL, ("rec", "onnx", "model.onnx"): b"rec"}


@dataclass
class Process:
    """A session as `access` has it: ends once, and tells whoever waits for it."""

    id: str = "a process"
    callbacks: list[Callable[[], None]] = field(default_factory=list)
    ended: bool = False

    def on_end(self, callback: Callable[[], None]) -> None:
        if self.ended:
            callback()
        self.callbacks.append(callback)

    def end(self) -> None:
        self.ended = True
        for callback in self.callbacks:
            callback()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    policy = everything_for(ME.uid, SOMEBODY.uid)
    limits = Limits(transaction_ttl=0.0, transactions=4, transactions_of_one=3)
    with Running(tmp_path, policy=policy, limits=limits) as running:
        running.import_(payloads=FILES)
        yield running


def staged(running: Running) -> int:
    return len(list((running.store_path / ".staging").iterdir()))


def test_a_transaction_is_its_principals_alone(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    with pytest.raises(NotFoundError):
        running.payloads.commit(SOMEBODY, transaction.id, CommitValues(1))
    with pytest.raises(NotFoundError):
        running.payloads.transaction(SOMEBODY, transaction.id)
    running.payloads.abort(SOMEBODY, transaction.id)
    assert running.commit(transaction).generation == 2


def test_an_unknown_transaction_is_not_found_and_aborting_it_is_fine(running: Running) -> None:
    for key in (b"", bytes(16)):
        with pytest.raises(NotFoundError):
            running.payloads.commit(ME, key, CommitValues(1))
        running.payloads.abort(ME, key)


def test_writing_needs_its_right(running: Running, tmp_path: Path) -> None:
    running.close()
    reader = Grant(ME.uid, None, None, ("*",), None, frozenset({Right.READ}))
    with Running(tmp_path, policy=Policy((reader,))) as strict:
        assert strict.read(ONNX) == MODEL
        with pytest.raises(DeniedError):
            strict.begin(QNN)


def test_an_aborted_transaction_leaves_nothing(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    sink = transaction.create("qnn.bin", "blob")
    running.payloads.abort(ME, transaction.id)
    running.payloads.abort(ME, transaction.id)
    assert staged(running) == 0
    sink.writer.seal_segment(0, running.scratch, 0, last=True)
    with pytest.raises(WrongStateError, match="aborted"):
        sink.finish()
    with pytest.raises(WrongStateError, match="aborted"):
        running.commit(transaction)


def test_a_session_takes_its_transactions_with_it(running: Running) -> None:
    process = Process()
    one, two = (running.payloads.begin(ME, QNN, process) for _ in range(2))
    running.write(one, "model.onnx", b"x")
    running.commit(one)
    assert staged(running) == 1
    assert running.payloads.expire() == 0, "what has a session doesn't expire"
    process.end()
    until(lambda: (staged(running), two.ended) == (0, True))
    assert running.read(QNN) == b"x"
    late = running.payloads.begin(ME, QNN, process)
    until(lambda: late.ended)


def test_the_end_of_a_session_waits_for_no_disk(running: Running) -> None:
    process = Process()
    transaction = running.payloads.begin(ME, QNN, process)
    with ThreadPoolExecutor(1) as socket_thread:
        with transaction._changed:  # as a writer that makes a file holds it
            socket_thread.submit(process.end).result(5)
            assert not transaction.ended
        until(lambda: transaction.ended)


def test_a_transaction_without_session_expires_when_it_is_idle(running: Running) -> None:
    idle, busy = running.begin(QNN), running.begin(QNN)
    with busy.create("model.onnx", "model"):
        assert running.payloads.expire() == 1
        assert (idle.ended, busy.ended) == (True, False)
    with pytest.raises(WrongStateError):
        idle.create("model.onnx", "model")
    assert running.payloads.expire() == 1
    assert staged(running) == 0


def test_too_many_transactions_are_refused(running: Running) -> None:
    for _ in range(3):
        running.begin(QNN)
    with pytest.raises(ExhaustedError, match="3 transactions of the caller"):
        running.begin(QNN)
    running.payloads.begin(SOMEBODY, QNN)
    with pytest.raises(ExhaustedError):
        running.payloads.begin(SOMEBODY, QNN)
    assert staged(running) == 4
    running.payloads.expire()
    running.begin(QNN)


def test_stopping_aborts_what_is_open(running: Running) -> None:
    running.begin(QNN)
    running.service.close()
    assert staged(running) == 0


def test_an_abort_during_a_commit_lets_it_take_its_course(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")
    inside, go_on = threading.Event(), threading.Event()

    def publish(_: object) -> ScopeKey:
        inside.set()
        go_on.wait(10)
        return QNN

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(transaction.commit, 1, publish)
        inside.wait(10)
        transaction.abort()
        go_on.set()
        assert answer.result(10) == QNN
    assert transaction.committed


def test_an_abort_during_a_commit_that_fails_aborts(running: Running) -> None:
    transaction = running.begin(QNN)
    running.write(transaction, "model.onnx", b"x")

    def publish(_: object) -> ScopeKey:
        transaction.abort()
        raise ConflictError("another writer was faster")

    with pytest.raises(ConflictError):
        transaction.commit(1, publish)
    assert staged(running) == 0
    with pytest.raises(WrongStateError, match="aborted"):
        running.commit(transaction)


def test_what_can_not_be_removed_keeps_no_other_transaction_from_ending(running: Running) -> None:
    transactions = [running.begin(QNN) for _ in range(3)]
    before = descriptors(os.getpid())
    with no_descriptor_left():
        assert running.payloads.expire() == 3
    assert all(transaction.ended for transaction in transactions)
    assert descriptors(os.getpid()) == before - 3
    LocalStore.open(running.store_path).close()
    assert not list((running.store_path / ".staging").iterdir())


def test_a_transaction_that_ended_keeps_its_answer_and_no_manifest(tmp_path: Path) -> None:
    with Running(tmp_path, limits=Limits(opened_packages=1)) as running:
        running.import_(payloads=FILES)
        running.import_("asr", payloads=FILES)
        committed, aborted = running.begin(QNN), running.begin(QNN)
        manifest = weakref.ref(committed.base)
        running.write(committed, "model.onnx", b"x")
        scope = running.commit(committed)
        running.payloads.abort(ME, aborted.id)
        running.payloads.open(ME, replace(ONNX, package="asr"))
        gc.collect()
        assert manifest() is None
        assert running.commit(committed) == scope


def test_large_manifests_are_not_all_remembered(tmp_path: Path) -> None:
    with Running(tmp_path, limits=Limits(opened_bytes=10_000)) as running:
        opened = []
        for name in ("one", "two", "three"):
            running.import_(name, payloads=FILES)
            transaction = running.begin(replace(QNN, package=name))
            opened.append(weakref.ref(transaction.base))
            running.write(transaction, "model.onnx", b"x")
            running.commit(transaction, executor_info_json=json.dumps({"ort": {"x": "y" * 9_000}}))
            running.payloads.open(ME, replace(QNN, package=name))
        gc.collect()
        assert [one() for one in opened[:2]] == [None, None]


def test_nobody_makes_the_answer_of_another_be_forgotten(running: Running) -> None:
    committed = running.begin(QNN)
    running.write(committed, "model.onnx", b"x")
    scope = running.commit(committed)
    for _ in range(1100):
        transaction = running.payloads.begin(SOMEBODY, QNN)
        running.payloads.abort(SOMEBODY, transaction.id)
    assert running.commit(committed) == scope


class Hold:
    """A meter that holds one thread up, as a slow disk or key service does."""

    def __init__(self) -> None:
        self.held, self.go_on = threading.Event(), threading.Event()

    def seconds(self, phase: str, value: float) -> None:  # noqa: ARG002  (the meter's signature)
        if threading.current_thread().name.startswith("slow") and phase == "key":
            self.held.set()
            assert self.go_on.wait(20)

    def prefetched(self, delivery: str, count: int) -> None:
        """Nothing is got ready here."""


def test_a_slow_commit_holds_up_no_commit_to_another_package(tmp_path: Path) -> None:
    meter = Hold()
    with (
        Running(tmp_path, meter=meter) as running,
        ThreadPoolExecutor(1, thread_name_prefix="slow") as slow,
        ThreadPoolExecutor(1) as quick,
    ):
        transactions = []
        for name in ("one", "two"):
            running.import_(name, payloads=FILES)
            transactions.append(running.begin(replace(QNN, package=name)))
            running.write(transactions[-1], "model.onnx", b"x")
        first = slow.submit(running.commit, transactions[0])
        try:
            assert meter.held.wait(20)
            assert quick.submit(running.commit, transactions[1]).result(5).generation == 2
            assert not first.done()
        finally:
            meter.go_on.set()
        assert first.result(20).generation == 2


def test_a_key_that_can_not_be_had_any_more_ends_what_has_it_already(running: Running) -> None:
    transaction = running.begin(QNN)
    with running.payloads.read(ME, ONNX, "model.onnx", running.scratch) as source:
        permits = (source.permit, running.payloads.writing(ME, transaction))
        for permit in permits:
            permit.renew()
        running.keyring.lock()
        time.sleep(RENEWED_AFTER)
        for permit in permits:
            permit.check()  # the policy has nothing against it
            with pytest.raises(LockedError):
                permit.renew()
        running.keyring.unlock()
