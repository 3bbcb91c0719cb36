"""Daemons' services on one bucket, doing everything at once and at random for a while."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from support.buckets import BucketServer, bucket_server
from support.services import ME, REFRESH, Running

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SealcarError,
    TruncatedError,
)
from sealcar_server.service.pruning import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS: Final = 60.0
SERVICES: Final = 3
VARIANTS: Final = ("base", "v0", "v1", "v2")
# what another one did is told as this, and as nothing else
TOLD: Final = (AlreadyExistsError, ConflictError, NotFoundError)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    with bucket_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


class Crowd:
    """Services over one bucket, each with a thread that uses it."""

    def __init__(self, server: BucketServer, folder: Path, stack: ExitStack) -> None:
        self.server, self.bucket = server, server.make()
        self.services: list[Running] = []
        place = server.place(self.bucket)
        for number in range(SERVICES):
            root = folder / str(number)
            root.mkdir()
            if number:
                shutil.copy(folder / "0" / "kek", root / "kek")
            running = Running(root, place=place, abandoned=3600)
            self.services.append(stack.enter_context(running))
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.committed: set[bytes] = set()

    def run(self, acts: tuple[str, ...], told: tuple[type[SealcarError], ...]) -> None:
        """Have each act at random until the time is over."""
        end = time.monotonic() + SECONDS
        threads = [
            threading.Thread(target=self._act, args=(number, acts, told, end))
            for number in range(SERVICES)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(2 * REFRESH)

    def _act(
        self, number: int, acts: tuple[str, ...], told: tuple[type[SealcarError], ...], end: float
    ) -> None:
        chance = random.Random(number)  # noqa: S311  (the same each time)
        while time.monotonic() < end:
            act, name = chance.choice(acts), chance.choice("ab")
            try:
                getattr(self, act)(self.services[number], name, chance)
                self.outcomes[act] += 1
            except told as error:
                self.outcomes[f"{act}: {type(error).__name__}"] += 1
            except BaseException as error:  # noqa: BLE001  (told when all have ended)
                self.wrong.append(f"{act}: {error!r}")

    def importing(self, running: Running, name: str, _chance: random.Random) -> None:
        running.import_(name, payloads={("det", "base", "model.onnx"): b"base:"})

    def adding(self, running: Running, name: str, chance: random.Random) -> None:
        variant = chance.choice(VARIANTS[1:])
        data = f"{variant}:{chance.random()}".encode()
        running.add_variant(ScopeKey(name, "1", "det", variant), data)
        self.committed.add(data)

    def reading(self, running: Running, name: str, chance: random.Random) -> None:
        variant = chance.choice(VARIANTS)
        read = running.read(ScopeKey(name, chance.choice(("", "1")), "det", variant))
        assert read.startswith(f"{variant}:".encode()), "wrong bytes were served"

    def pruning(self, running: Running, name: str, _chance: random.Random) -> None:
        running.service.pruning.prune(ME, Wanted(name))

    def removing(self, running: Running, name: str, chance: random.Random) -> None:
        if chance.random() < 0.2:
            running.service.removing.remove(ME, name, "1", 0)

    def listing(self, running: Running, _name: str, _chance: random.Random) -> None:
        running.listing.list(ME, "", ("", ""), 10)

    def agreed(self, name: str) -> int:
        """Return the newest generation, on which all agree and of which every byte is checked."""
        found = set()
        for running in self.services:
            try:
                found.add(running.packages.verify(ME, name, "1", 0, lambda *_: None).generation)
            except NotFoundError:
                found.add(0)
        assert len(found) == 1
        return found.pop()


@pytest.mark.timeout(600)
def test_what_several_publish_and_prune_is_whole_for_all(
    server: BucketServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        crowd = Crowd(server, tmp_path, stack)
        for name in "ab":
            crowd.importing(crowd.services[0], name, random.Random())  # noqa: S311  (unused)
        crowd.run(("adding", "adding", "reading", "reading", "pruning", "listing"), TOLD)
        assert crowd.wrong == []
        assert crowd.outcomes["adding"] > 20
        for name in "ab":
            assert crowd.agreed(name) > 1
            for variant in VARIANTS[1:]:
                # nobody's work is there but what was said to be done
                read = crowd.services[0].read(ScopeKey(name, "1", "det", variant))
                assert read in crowd.committed


@pytest.mark.timeout(600)
def test_what_several_remove_and_import_anew_is_one_package_or_none_for_all(
    server: BucketServer, tmp_path: Path
) -> None:
    acts = ("importing", "adding", "reading", "reading", "pruning", "removing", "listing")
    with ExitStack() as stack:
        crowd = Crowd(server, tmp_path, stack)
        # a generation that came while its version was being removed lacks payloads for a moment
        crowd.run(acts, (*TOLD, TruncatedError))
        assert crowd.wrong == []
        assert crowd.outcomes["removing"] > 5
        assert crowd.outcomes["importing"] > 5
        for name in "ab":
            crowd.agreed(name)
