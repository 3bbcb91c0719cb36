"""The audit log: what whoever can write its files, or takes the daemon over, can't hide."""

from __future__ import annotations

import json
import os
import random
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.raw_clients import until

from sealcar.errors import (
    DamagedError,
    KeyRefusedError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    StorageError,
    TruncatedError,
)
from sealcar_server import auditing
from sealcar_server.access.audit.chain import Chain, Position, SealedKey, line_of, parse
from sealcar_server.access.audit.log import AuditLog, Options
from sealcar_server.access.audit.verifying import Found, Verifier
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.ring import KeyRing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.sealing.secret import SecretBuffer


@dataclass
class World:
    """A folder of a log, and the key-encryption key that its keys are under."""

    folder: Path
    keyring: KeyRing

    def log(self, **options: Any) -> AuditLog:  # noqa: ANN401  (those of Options)
        return AuditLog(self.folder, self.seal, Options(sync_interval=0.05, **options))

    def seal(self, key: SecretBuffer, context: bytes) -> SealedKey:
        wrapped = self.keyring.wrap("main", key, context)
        return SealedKey("main", wrapped.version, wrapped.blob)

    @contextmanager
    def run(self, lines: int = 0, **options: Any) -> Iterator[AuditLog]:  # noqa: ANN401  (as above)
        log = self.log(**options)
        try:
            for number in range(lines):
                log.write("decision", {"number": number})
            yield log
        finally:
            log.close()

    def write(self, lines: int) -> Position:
        """Run for a while, and return the last line."""
        with self.run(lines) as log:
            pass
        return log.last

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))

    @property
    def file(self) -> Path:
        (only,) = self.files()
        return only

    def lines(self) -> list[bytes]:
        return self.file.read_bytes().splitlines(keepends=True)

    def put(self, lines: list[bytes]) -> None:
        self.file.write_bytes(b"".join(lines))

    def verify(self, known: Position | None = None, files: list[Path] | None = None) -> Found:
        verifier = Verifier(auditing.unsealing(self.keyring))
        return verifier.verify(files or self.files(), known)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "audit"
    folder.mkdir()
    with KeyRing({"main": FileProvider.create(tmp_path / "kek")}, lifetime=0) as keyring:
        yield World(folder, keyring)


def test_what_was_written_is_found_whole_over_several_runs(world: World) -> None:
    for _ in range(3):
        last = world.write(20)
    found = world.verify(last)
    assert (found.first, found.last, found.cut, found.open_end) == (1, last, (), 0)
    assert last.sequence == 3 * 22


def test_a_changed_line_is_noticed_wherever_it_is_changed(world: World) -> None:
    world.write(5)
    good = world.file.read_bytes()
    for at in range(0, len(good), 7):
        bad = bytearray(good)
        bad[at] ^= 1
        world.file.write_bytes(bad)
        try:
            found = world.verify()
        except (DamagedError, KeyRefusedError):
            continue
        assert found.open_end, "only a last line without its end can be a crash's"


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:3] + lines[4:],
        lambda lines: [*lines[:3], lines[2], *lines[3:]],
        lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
        lambda lines: lines[1:],
        lambda lines: [*lines[:4], b"\n", *lines[4:]],
        lambda lines: [*lines[:4], b"junk\n", *lines[4:]],
        lambda lines: [*lines[:4], lines[4].replace(b'"number":3', b'"number": 3'), *lines[5:]],
    ],
    ids=["removed", "repeated", "swapped", "key removed", "empty", "junk", "reformatted"],
)
def test_a_line_removed_added_moved_or_rewritten_is_noticed(
    world: World, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    world.write(8)
    world.put(change(world.lines()))
    with pytest.raises(NotAuthenticError):
        world.verify()


def test_a_line_of_another_run_is_noticed(world: World) -> None:
    world.write(4)
    world.write(4)
    lines = world.lines()
    second = next(at for at, line in enumerate(lines) if at and b'"event":"started"' in line)
    world.put([*lines[:2], lines[second + 1], *lines[3:]])
    with pytest.raises(NotAuthenticError, match="line 3"):
        world.verify()


def test_a_run_that_was_taken_out_whole_is_noticed(world: World) -> None:
    sizes = []
    for _ in range(3):
        world.write(4)
        sizes.append(world.file.stat().st_size)
    raw = world.file.read_bytes()
    world.file.write_bytes(raw[: sizes[0]] + raw[sizes[1] :])
    with pytest.raises(NotAuthenticError, match="taken out or added"):
        world.verify()


def test_a_cut_end_is_noticed_by_whoever_knows_the_last_line(world: World) -> None:
    last = world.write(8)
    world.put(world.lines()[:-3])
    world.verify()  # the files alone don't show it
    with pytest.raises(TruncatedError, match="its end was cut off"):
        world.verify(last)


def test_a_cut_end_that_the_daemon_went_on_after_is_noticed_too(world: World) -> None:
    last = world.write(8)
    world.put(world.lines()[:-3])
    world.write(8)
    world.verify()
    with pytest.raises(NotAuthenticError, match="isn't the one that is known"):
        world.verify(last)


def test_the_key_of_a_daemon_that_was_taken_over_forges_no_line_of_before(world: World) -> None:
    with world.run(10) as log:
        stolen = log._chain._key.copy()
    lines = world.lines()
    with stolen:
        for at in (1, 5, 9):
            text, _, _ = parse(lines[at].rstrip(b"\n"))
            forged = text.replace(b'"event":"decision"', b'"event":"nothing"')
            mac = Chain(stolen.copy()).mac(forged)
            world.put([*lines[:at], line_of(forged, mac), *lines[at + 1 :]])
            with pytest.raises(NotAuthenticError):
                world.verify()


def test_a_log_that_an_attacker_wrote_under_a_key_of_his_own_is_noticed(
    world: World, tmp_path: Path
) -> None:
    world.write(3)
    other = tmp_path / "other"
    other.mkdir()
    with KeyRing({"main": FileProvider.create(tmp_path / "kek2")}, lifetime=0) as keyring:
        forger = World(other, keyring)
        forger.write(3)
        forger.verify()
    world.file.write_bytes(forger.file.read_bytes())
    with pytest.raises(KeyRefusedError):
        world.verify()


@pytest.mark.parametrize("cut", [1, 2, 30, 150])
def test_a_torn_last_line_is_kept_and_accounted_for(world: World, cut: int) -> None:
    world.write(5)
    whole = world.file.read_bytes()
    torn = whole[:-cut]
    world.file.write_bytes(torn)
    assert world.verify().open_end > 0
    last = world.write(5)
    assert world.file.read_bytes().startswith(torn + b"\n"), "what was there is kept"
    (recovered,) = [line for line in world.lines() if b'"event":"recovered"' in line]
    assert json.loads(recovered)["torn"]["bytes"] > 0
    found = world.verify(last)
    assert len(found.cut) == 1
    assert found.open_end == 0


def test_a_torn_line_that_is_changed_later_is_noticed(world: World) -> None:
    world.write(5)
    torn = world.file.read_bytes()[:-30]
    world.file.write_bytes(torn)
    world.write(5)
    raw = bytearray(world.file.read_bytes())
    raw[len(torn) - 5] ^= 1
    world.file.write_bytes(raw)
    with pytest.raises(NotAuthenticError):
        world.verify()


def test_whole_lines_that_are_called_torn_are_noticed_by_whoever_knows_one(world: World) -> None:
    last = world.write(5)
    lines = world.lines()
    world.put([*lines[:-2], b"x" * 200, b"\n"])
    world.write(5)
    assert world.verify().cut
    with pytest.raises(NotAuthenticError, match="isn't the one that is known"):
        world.verify(last)


def test_a_full_file_is_followed_by_one_that_names_it_and_verifies_alone(world: World) -> None:
    with world.run(file_size=4096) as log:
        for number in range(60):
            log.write("decision", {"number": number})
            until(lambda: log._size < 4096)
    files = world.files()
    assert len(files) > 2
    assert world.verify(log.last).first == 1
    assert world.verify(log.last, list(reversed(files))).first == 1
    assert world.verify(log.last, files[1:]).first > 1
    first = json.loads(files[1].read_bytes().splitlines()[0])
    before = parse(files[0].read_bytes().splitlines()[-1])[2]
    assert first["event"] == "continued"
    assert first["previous"] == {
        "file": files[0].name,
        "sequence": before.sequence,
        "mac": before.mac,
    }
    with pytest.raises(NotAuthenticError):
        world.verify(log.last, [files[0], *files[2:]])
    with pytest.raises(NotFoundError, match="before the first"):
        world.verify(before, files[1:])


def test_what_can_not_be_accounted_for_is_refused_and_leaves_no_half_line(world: World) -> None:
    with world.run(3) as log:
        good = os.dup(log._fd)
        with open("/dev/full", "wb") as full:  # noqa: PTH123  (a device)
            os.dup2(full.fileno(), log._fd)
            with pytest.raises(StorageError, match="nothing is served"):
                log.write("decision", {})
            assert not log.writable
            os.dup2(good, log._fd)
        os.close(good)
        log.write("decision", {})
        assert log.writable
    assert world.verify(log.last).last.sequence == 6


def test_a_half_line_that_can_not_be_taken_back_at_once_is_before_the_next_one(
    world: World,
) -> None:
    with world.run(3) as log:
        with log._lock:
            # as if the disk had taken half a line, and then failed to take it back
            os.write(log._fd, b'{"sequence":5,"half')
            log._half = True
        log.write("decision", {})
    assert world.verify(log.last).last.sequence == 6


def test_a_file_that_is_removed_while_the_daemon_writes_is_missed(world: World) -> None:
    with world.run(3) as log:
        removed = world.file
        removed.unlink()
        until(lambda: bool(world.files()))
        log.write("decision", {})
    first = json.loads(world.lines()[0])
    assert first["previous"]["file"] == removed.name
    assert first["previous"]["sequence"] == 4
    assert world.verify(log.last).first == 5


def test_where_the_log_is_best_effort_lost_lines_are_counted(world: World) -> None:
    with world.run(3, required=False) as log:
        good = os.dup(log._fd)
        with open("/dev/full", "wb") as full:  # noqa: PTH123  (a device)
            os.dup2(full.fileno(), log._fd)
            for _ in range(4):
                log.write("decision", {})
            os.dup2(good, log._fd)
        os.close(good)
        log.write("decision", {})
    assert json.loads(world.lines()[-2])["lost"] == 4
    world.verify(log.last)


def test_nothing_but_our_own_errors_leaves_the_verification(world: World) -> None:
    world.write(12)
    good = world.file.read_bytes()
    chance = random.Random(4)  # noqa: S311  (a test's)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(bad))
            bad[at : at + chance.randint(0, 9)] = chance.randbytes(chance.randint(0, 9))
        world.file.write_bytes(bad)
        try:
            found = world.verify()
        except SealcarError:
            continue
        assert bad == good or found.open_end, "a change went unnoticed"
