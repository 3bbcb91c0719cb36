"""The C client against a real daemon: payloads there and back, threads, failures, clean memory."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import socket
import stat
import tempfile
import time
from pathlib import Path
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
    from collections.abc import Callable, Iterator

SCOPE = ("m", "c", "v")
OTHER = 5000
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


@pytest.fixture
def beyond_others() -> Iterator[Path]:
    """Yield a directory that nobody else could have made or can write to."""
    with tempfile.TemporaryDirectory(prefix="sealcar-test-", dir="/run") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.root
def test_another_users_daemon_gets_a_byte_only_where_nobody_else_could_listen(
    beyond_others: Path,
) -> None:
    with _listening(beyond_others, OTHER) as heard:
        for mode, uid, spoken in (
            (0o755, "", True),
            (0o775, "", False),
            (0o1777, "", False),
            (0o777, str(OTHER), True),
            (0o755, str(OTHER + 1), False),
        ):
            beyond_others.chmod(mode)
            done = call(beyond_others, "read", *SCOPE, "b", PATIENCE_MS="1", SEALCAR_PEER_UID=uid)
            assert (done.returncode, done.stderr[:3]) == (1, b"52 " if spoken else b"13 ")
            assert bool(heard()) == spoken
        (beyond_others / "link").symlink_to(beyond_others)
        beyond_others.chmod(0o755)
        done = call(beyond_others / "link", "read", *SCOPE, "b", PATIENCE_MS="1")
        assert b"give it as peer_uid or $SEALCAR_PEER_UID" in done.stderr
        assert heard() == b""


@pytest.mark.root
def test_an_owner_that_python_would_not_believe_is_not_believed_in_c(beyond_others: Path) -> None:
    chance = random.Random(1)  # noqa: S311  (a test that can be repeated)
    ways = [*_ways(beyond_others, chance)]
    lines = c_programs.run(
        [str(c_programs.program("c_owner", inside=True)), *map(str, ways)], beyond_others
    ).stdout.split()
    answers = {way: (_in_python(way), int(line)) for way, line in zip(ways, lines, strict=True)}
    assert {way: both for way, both in answers.items() if both[1] not in (-1, both[0])} == {}
    # what needs no link and nothing that is sticky is the same for both
    plain = [both for way, both in answers.items() if _plain(way)]
    assert [both for both in plain if both[0] != both[1]] == []
    assert {0, 5000, 5001, -1} <= {both[1] for both in plain}


@contextlib.contextmanager
def _listening(folder: Path, uid: int) -> Iterator[Callable[[], bytes]]:
    """Listen as another user, without a word; yield what tells what was heard last."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(str(folder / "data.sock"))
        os.chown(folder, uid, uid)
        os.seteuid(uid)
        try:
            sock.listen()
        finally:
            os.seteuid(0)

        def heard() -> bytes:
            peer, _ = sock.accept()
            with peer:
                return peer.recv(1 << 16)

        yield heard


def _ways(folder: Path, chance: random.Random) -> Iterator[Path]:
    """Make small trees of directories and links, and yield a way through each."""
    for number in range(120):
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
            here.chmod(chance.choice([0o755, 0o755, 0o755, 0o755, 0o1777, 0o775]))
        steps = [chance.choice([name, name, "link", f"{name}/../link"]) for name in names]
        yield top.joinpath(*chance.choice([steps, names]), *chance.choice([(), (), ("none",)]))


def _plain(way: Path) -> bool:
    places = [way, *way.parents]
    return way == way.resolve() and not any(
        place.is_dir() and place.stat().st_mode & stat.S_ISVTX for place in places
    )


def _in_python(directory: Path) -> int:
    try:
        return owner_of(directory)
    except (ConfigurationError, UnavailableError):
        return -1


def test_an_error_ends_with_the_number_by_which_the_log_has_more(served: Daemon) -> None:
    done = call(served.socket, "read", *SCOPE, "none")
    found = re.fullmatch(
        rb"12 reading none of m/c/v: [ -~]+ \(request ([0-9a-f]{16})\)\n", done.stderr
    )
    assert found, done.stderr
    logged = [line for line in served.log if line.get("request_id") == found[1].decode()]
    assert [line["event"] for line in logged] == ["request refused"]


@pytest.mark.parametrize("command", ["read", "threads", "status"])
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


@pytest.mark.parametrize("command", ["read", "threads", "list"])
def test_reading_is_clean_under_the_address_sanitizer(command: str, served: Daemon) -> None:
    checked(call(served.socket, command, *SCOPE, "big", sanitized=True))


def test_writing_is_clean_under_the_address_sanitizer(served: Daemon, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(PAYLOADS["big"])
    arguments = ("write", "m", "c", "sanitized", "blob", str(tmp_path / "f"))
    checked(call(served.socket, *arguments, data=TINY, sanitized=True))


def test_the_client_names_its_release_to_the_daemon() -> None:
    assert f'"sealcar-c {sealcar.__version__}"' in c_programs.LIBRARY.read_text()
