"""The C client against a real daemon: payloads there and back, threads, failures, clean memory."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from support import c_programs
from support.c_programs import VALGRIND, call
from support.daemon import Daemon, run_command
from support.onnx_bytes import TINY
from support.payload_packages import publish, varied

import sealcar
from sealcar.errors import ConfigurationError, UnavailableError
from sealcar.transfer.owners import owner_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

SCOPE = ("m", "c", "v")
PAYLOADS = {
    "big": varied((9 << 20) + 123),
    "odd": varied(64_001),
    "small": varied(64_000),
    "empty": b"",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("c")) as daemon:
        with daemon.connect() as client:
            publish(client, PAYLOADS)
        yield daemon


def checked(done: subprocess.CompletedProcess[bytes]) -> bytes:
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_reader_in_c_gets_the_same_bytes(name: str, served: Daemon) -> None:
    assert checked(call(served.socket, "read", *SCOPE, name)) == PAYLOADS[name]
    if PAYLOADS[name]:
        assert checked(call(served.socket, "map", *SCOPE, name)) == PAYLOADS[name]


@pytest.mark.parametrize("name", ["big", "small"])
def test_a_read_of_another_size_gives_zeros_and_the_next_one_everything(
    name: str, served: Daemon
) -> None:
    assert checked(call(served.socket, "again", *SCOPE, name)) == PAYLOADS[name]


def test_a_variant_is_listed_as_python_lists_it(served: Daemon) -> None:
    first, *rest = checked(call(served.socket, "list", *SCOPE)).decode().splitlines()
    assert first.startswith("m 1 c v 1 {")
    with served.connect() as client:
        wanted = [f"{one.size} {one.name}" for one in client.scope(*SCOPE).payloads]
    assert [line.split(" ", 1)[1] for line in rest] == wanted


def test_more_payloads_than_a_packet_holds_are_all_listed(served: Daemon) -> None:
    many = {f"{number:03}{'n' * 190}": b"x" for number in range(400)}
    with served.connect() as client:
        publish(client, many, "many")
    lines = checked(call(served.socket, "list", "many", "c", "v")).decode().splitlines()
    assert {line.split()[-1] for line in lines[1:]} == {*many, "model.onnx"}


@pytest.mark.parametrize("name", PAYLOADS)
def test_what_c_writes_python_reads(name: str, served: Daemon, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(PAYLOADS[name])
    scope = ("m", "c", f"written-{name}")
    done = call(served.socket, "write", *scope, "blob", str(tmp_path / "f"), data=TINY)
    generation = int(checked(done))
    with served.connect() as client:
        written = client.scope(*scope)
        assert written.read("blob") == PAYLOADS[name]
        assert written.read("model.onnx") == TINY
        assert written.generation == generation
        assert written.executor_info["own"] == {"a": 1}


def test_what_is_aborted_was_never_there(served: Daemon, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(PAYLOADS["big"])
    checked(call(served.socket, "drop", "m", "c", "gone", "b", str(tmp_path / "f"), data=TINY))
    done = call(served.socket, "list", "m", "c", "gone")
    assert (done.returncode, done.stderr[:3]) == (1, b"12 ")


def test_eight_threads_and_a_child_of_fork_read_at_once(served: Daemon) -> None:
    checked(call(served.socket, "threads", *SCOPE, "big"))


def test_a_failure_in_the_callback_is_a_status_that_says_which_blob(served: Daemon) -> None:
    assert checked(call(served.socket, "status", *SCOPE, "small")) == b"0 64000\n"
    assert checked(call(served.socket, "status", *SCOPE, "none")).startswith(
        b"1 reading none of m/c/v: "
    )
    # the model isn't a blob, whatever a model calls its blobs
    assert checked(call(served.socket, "status", *SCOPE, "model.onnx")).startswith(b"1 ")


def test_names_that_no_message_can_carry_are_refused_before_they_are_sent(served: Daemon) -> None:
    for name in ("\udcff", "\udcc3(", "\udced\udca0\udc80", "x" * 70_000):
        done = call(served.socket, "read", *SCOPE, name)
        assert done.returncode == 1
        assert re.match(rb"1[01] reading [ -~]+ of m/c/v: a text", done.stderr)


def test_a_name_that_is_refused_is_clean_under_valgrind(served: Daemon) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind isn't installed (Debian package valgrind)")
    done = call(served.socket, "read", *SCOPE, "x" * 70_000, before=VALGRIND)
    assert (done.returncode, done.stderr[:3]) == (1, b"10 ")


def test_a_killed_daemon_is_reported_and_its_successor_is_used(served: Daemon) -> None:
    served.kill()
    began = time.monotonic()
    done = call(served.socket, "read", *SCOPE, "big", PATIENCE_MS="200")
    assert (done.returncode, done.stderr[:3]) == (1, b"51 ")
    assert time.monotonic() - began < 5
    served.start()
    assert checked(call(served.socket, "read", *SCOPE, "big")) == PAYLOADS["big"]


def test_a_locked_daemon_is_told_apart(served: Daemon) -> None:
    admin = str(served.admin)
    assert run_command("lock", "--admin", admin).returncode == 0
    try:
        done = call(served.socket, "read", *SCOPE, "big")
        assert (done.returncode, done.stderr[:3]) == (1, b"41 ")
    finally:
        assert run_command("unlock", "--admin", admin).returncode == 0
    assert checked(call(served.socket, "read", *SCOPE, "big")) == PAYLOADS["big"]


def test_a_daemon_of_another_uid_gets_nothing(served: Daemon) -> None:
    done = call(served.socket, "read", *SCOPE, "big", SEALCAR_PEER_UID="4711")
    assert done.returncode == 1
    assert b"must have uid 4711" in done.stderr


def test_a_directory_that_others_could_have_made_attests_nobody(
    served: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "d").symlink_to(served.socket)
    (tmp_path / "x").mkdir()
    checked(call(tmp_path / "d", "read", *SCOPE, "small"))
    checked(call(tmp_path / "x" / ".." / "d", "read", *SCOPE, "small"))
    tmp_path.chmod(0o777)
    done = call(tmp_path / "d", "read", *SCOPE, "small")
    assert (done.returncode, done.stderr[:3]) == (1, b"10 ")
    # who the daemon must be is then said by the caller
    uid = str(served.socket.stat().st_uid)
    checked(call(tmp_path / "d", "read", *SCOPE, "small", SEALCAR_PEER_UID=uid))


@pytest.mark.root
def test_whose_directory_is_believed_is_the_same_in_python_and_c(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311  (a test that can be repeated)
    answers = {each: (_in_python(each), _in_c(each)) for each in _ways(tmp_path, chance)}
    assert [each for each, (python, c) in answers.items() if python != c] == []
    assert {python for python, _ in answers.values()} == {10, 51}


def _ways(folder: Path, chance: random.Random) -> Iterator[Path]:
    """Make small trees of directories and links, and yield a way through each."""
    out = folder / "out"
    for each in (out, out / "sticky", out / "here"):
        each.mkdir()
        os.chown(each, 5000, 5000)
    (out / "sticky").chmod(0o1777)
    yield out / "sticky" / ".." / "here"
    for number in range(30):
        here = top = folder / str(number)
        names = ["a", "b", "c"]
        for name in names:
            here /= name
            here.mkdir(parents=True)
            link = here.parent / "link"
            link.symlink_to(chance.choice([name, f"../{here.parent.name}/{name}", str(here)]))
            for each in (here, link):
                uid = chance.choice([0, 0, 5000, 5000, 5001])
                os.chown(each, uid, uid, follow_symlinks=False)
            here.chmod(chance.choice([0o755, 0o755, 0o755, 0o1777, 0o775]))
        steps = [chance.choice([name, "link", f"{name}/../link", f"{name}/."]) for name in names]
        yield top.joinpath(*steps, *chance.choice([(), (), (), ("..",), ("none",)]))


def _in_python(directory: Path) -> int:
    try:
        owner_of(directory)
    except ConfigurationError:
        return 10
    except UnavailableError:
        pass
    return 51  # there is no daemon


def _in_c(directory: Path) -> int:
    return int(call(directory, "read", *SCOPE, "b", PATIENCE_MS="1").stderr.split()[0])


@pytest.mark.parametrize("command", ["read", "map", "threads", "status"])
def test_reading_is_clean_under_valgrind(command: str, served: Daemon) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind isn't installed (Debian package valgrind)")
    name = "odd" if command == "threads" else "big"
    checked(call(served.socket, command, *SCOPE, name, before=VALGRIND))


def test_writing_is_clean_under_valgrind(served: Daemon, tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind isn't installed (Debian package valgrind)")
    (tmp_path / "f").write_bytes(PAYLOADS["big"])
    arguments = ("write", "m", "c", "checked", "blob", str(tmp_path / "f"))
    checked(call(served.socket, *arguments, data=TINY, before=VALGRIND))


@pytest.mark.parametrize("command", ["read", "map", "threads", "list"])
def test_reading_is_clean_under_the_address_sanitizer(command: str, served: Daemon) -> None:
    checked(call(served.socket, command, *SCOPE, "big", sanitized=True))


def test_writing_is_clean_under_the_address_sanitizer(served: Daemon, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(PAYLOADS["big"])
    arguments = ("write", "m", "c", "sanitized", "blob", str(tmp_path / "f"))
    checked(call(served.socket, *arguments, data=TINY, sanitized=True))


def test_the_client_names_its_release_to_the_daemon() -> None:
    assert f'"sealcar-c {sealcar.__version__}"' in c_programs.LIBRARY.read_text()
