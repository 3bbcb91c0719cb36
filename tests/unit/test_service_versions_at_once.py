"""Everything that changes versions, by several threads at once: answers or our own errors."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

from support.services import ME, Running

from sealcar.errors import RequestError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.service.assembly import Limits
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import CommitValues, ScopeKey
from sealcar_server.service.writing import OrderedSealer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS: Final = 2.0
VERSIONS: Final = ("1", "2", "3")
SMALL: Final = {("det", "onnx", "model.onnx"): b"small"}


class Somebody:
    """One thread of those who work on a store."""

    def __init__(self, running: Running, seed: int) -> None:
        self._running, self._random = running, random.Random(seed)  # noqa: S311  (an order of steps)
        self._scratch = Scratch()
        self.done: dict[str, int] = {}
        self.failure: BaseException | None = None

    def work(self) -> None:
        steps = (self.put, self.compile, self.choose, self.remove, self.prune, self.read)
        until = time.monotonic() + SECONDS
        try:
            while time.monotonic() < until:
                self.step(self._random.choice(steps))
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            self.failure = error

    def step(self, step: Callable[[str], object]) -> None:
        try:
            step(self._random.choice(VERSIONS))
        except RequestError:
            # not found, taken, in the way of somebody else: never damage, never anything else
            return
        self.done[step.__name__] = self.done.get(step.__name__, 0) + 1

    def put(self, version: str) -> None:
        self._running.import_("ocr", version, payloads=SMALL)

    def compile(self, version: str) -> None:
        scope = ScopeKey("ocr", version, "det", self._random.choice("abc"))
        transaction = self._running.begin(scope)
        with transaction.create("model.onnx", "model", 4) as sink:
            sealer = OrderedSealer(sink.writer, self._scratch)
            sealer.feed(b"made")
            sealer.finish()
            sink.finish()
        self._running.payloads.commit(ME, transaction.id, CommitValues(1))

    def choose(self, version: str) -> None:
        self._running.service.choosing.choose(ME, "ocr", version)

    def remove(self, version: str) -> None:
        self._running.service.removing.remove(ME, "ocr", version)

    def prune(self, _version: str) -> None:
        self._running.service.pruning.prune(ME, Wanted("ocr", keep=1))

    def read(self, version: str) -> None:
        scope = ScopeKey("ocr", version, "det", "onnx")
        with self._running.payloads.read(ME, scope, "model.onnx", self._scratch) as source:
            span = source.reader.read_segment(0, self._scratch)
            assert bytes(self._scratch.plain[: span.plain_size]) == b"small"


def test_whoever_changes_versions_at_once_gets_an_answer_or_a_refusal(tmp_path: Path) -> None:
    with Running(tmp_path, limits=Limits(used_lately=0.0)) as running:
        people = [Somebody(running, seed) for seed in range(4)]
        threads = [threading.Thread(target=each.work, daemon=True) for each in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 60)
        assert not any(thread.is_alive() for thread in threads), "nobody waits for ever"
        for each in people:
            if each.failure is not None:
                raise each.failure
        done = {name for each in people for name in each.done}
        assert done >= {"put", "compile", "read"}
    with Running(tmp_path) as again:
        for summary in again.listing.list(ME):
            again.packages.verify(ME, "ocr", summary.version, 0, lambda *_: None)
        assert not any((again.store_path / ".staging").iterdir())
        remembered = strict_json((tmp_path / "state/seen.json").read_bytes())
        assert isinstance(remembered, dict)
        assert remembered["leaving"] == {}
