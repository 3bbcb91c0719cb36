"""Whatever writers do in whatever order, the store agrees with a model that fits on this page."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)
from support.services import ME, Running

from sealcar.errors import AlreadyExistsError, ConflictError, RequestError
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from sealcar_server.service.transactions import Transaction

VARIANTS = st.sampled_from(["onnx", "qnn", "cpu"])
NAMES = st.sampled_from(["model.onnx", "qnn.bin", "data/w.bin"])
Variants = dict[str, dict[str, bytes]]


@dataclass
class Writer:
    """What the model knows of a transaction."""

    transaction: Transaction
    variant: str
    base: dict[str, bytes] | None
    written: dict[str, bytes] = field(default_factory=dict)
    epoch: int = 0


class Writers(RuleBasedStateMachine):
    """Transactions, restarts and reads against one package."""

    writers: Bundle[Writer] = Bundle("writers")

    @initialize()
    def found(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.running = Running(Path(self.folder.name))
        self.running.import_(payloads={("det", "onnx", "model.onnx"): b"source"})
        self.generations: list[Variants] = [{"onnx": {"model.onnx": b"source"}}]
        self.epoch = 0

    def teardown(self) -> None:
        self.running.close()
        self.folder.cleanup()

    @rule(target=writers, variant=VARIANTS)
    def begin(self, variant: str) -> Writer:
        transaction = self.running.begin(ScopeKey("ocr", "", "det", variant))
        assert transaction.scope.generation == len(self.generations)
        base = self.generations[-1].get(variant)
        return Writer(transaction, variant, base, epoch=self.epoch)

    @rule(writer=writers, name=NAMES, data=st.binary(max_size=40))
    def write(self, writer: Writer, name: str, data: bytes) -> None:
        kind = "model" if name == "model.onnx" else "other"
        if writer.epoch != self.epoch or writer.transaction.ended:
            with pytest.raises(RequestError):
                self.running.write(writer.transaction, name, data, kind)
        elif name in writer.written:
            with pytest.raises(AlreadyExistsError):
                self.running.write(writer.transaction, name, data, kind)
        else:
            self.running.write(writer.transaction, name, data, kind)
            writer.written[name] = data

    @rule(writer=consumes(writers))
    def abort(self, writer: Writer) -> None:
        self.running.payloads.abort(ME, writer.transaction.id)

    @rule(writer=consumes(writers))
    def commit(self, writer: Writer) -> None:
        newest = self.generations[-1]
        lost = writer.epoch != self.epoch
        conflict = newest.get(writer.variant) is not writer.base
        if lost or conflict or "model.onnx" not in writer.written:
            with pytest.raises(RequestError) as caught:
                self.running.commit(writer.transaction, len(writer.written))
            if not lost and "model.onnx" in writer.written:
                assert isinstance(caught.value, ConflictError)
            self.running.payloads.abort(ME, writer.transaction.id)
            return
        scope = self.running.commit(writer.transaction, len(writer.written))
        self.generations.append({**newest, writer.variant: dict(writer.written)})
        assert scope.generation == len(self.generations)
        assert self.running.commit(writer.transaction, len(writer.written)) == scope

    @rule()
    def restart(self) -> None:
        self.running.close()
        self.running = Running(Path(self.folder.name))
        self.epoch += 1

    @rule(data=st.data())
    def read_any_generation(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.generations)))
        for variant, payloads in self.generations[number - 1].items():
            scope = ScopeKey("ocr", "1", "det", variant, number)
            opened = self.running.payloads.open(ME, scope)
            assert {payload.name for payload in opened.variant.payloads} == set(payloads)
            for name, content in payloads.items():
                assert self.running.read(scope, name) == content

    @invariant()
    def the_newest_generation_is_what_the_model_says(self) -> None:
        if not hasattr(self, "generations"):
            return
        detail = self.running.looking.get(ME, "ocr")
        assert detail.summary.generation == len(self.generations)
        found = {v.variant: {p.name for p in v.payloads} for v in detail.variants}
        assert found == {name: set(payloads) for name, payloads in self.generations[-1].items()}


TestWriters = Writers.TestCase
TestWriters.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
