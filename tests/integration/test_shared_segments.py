"""A payload lies in memory once for all who map it shared, and as long as somebody has it."""

from __future__ import annotations

import mmap
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon
from support.older_daemon import OlderDaemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import RawClient, descriptors, until
from support.segment_readers import Readers, mapped_by

import sealcar
from sealcar.admin import Admin
from sealcar.errors import ExhaustedError, NotAuthenticError, NotFoundError
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar import Client, MappedPayload

MIB: Final = 1 << 20
# a user may have 24 MiB, and so may all segments together
LIMIT: Final = 32 * MIB
PAYLOADS: Final = {
    "empty": b"",
    "one": b"1",
    "page": varied(4096),
    "over": varied(3 * MIB + 17),
    "first": varied(16 * MIB),
    "second": varied(16 * MIB),
    "large": varied(25 * MIB),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {"transfer.memory_limit": str(LIMIT), "transfer.wait": "1"}
    with Daemon(tmp_path_factory.mktemp("d"), settings=settings) as daemon:
        with daemon.connect() as client:
            publish(client, PAYLOADS)
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    """A daemon that nobody has a segment of, and that has none."""
    lock(shared)
    until(lambda: memory(shared) == 0)
    return shared


def lock(daemon: Daemon, check: Callable[[], object] = lambda: None) -> set[int]:
    """Lock, check, unlock; return the processes that have plaintext."""
    with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
        holders = admin.lock().holders
        check()
        admin.unlock()
    return {holder.pid for holder in holders}


def grant(daemon: Daemon, packages: str) -> None:
    """Put another policy in force."""
    before = daemon.metric("sealcar_policy_generation")
    rights = ["list", "read", "import"]
    text = f"[[grant]]\nuid = {os.getuid()}\npackages = ['{packages}']\nrights = {rights}\n"
    daemon.policy.write_text(text)
    os.kill(daemon.pid, signal.SIGHUP)
    until(lambda: daemon.metric("sealcar_policy_generation") > before)


def memory(daemon: Daemon) -> float:
    return daemon.metric("sealcar_memory_bytes")


def filled(daemon: Daemon) -> float:
    return daemon.metric("sealcar_phase_seconds_count", phase="fill")


def segment(client: Client, name: str) -> MappedPayload:
    return client.scope(PACKAGE, COMPONENT, VARIANT).map(name, shared=True)


def test_a_shared_payload_holds_the_very_bytes(client: Client) -> None:
    for name in ("empty", "one", "page", "over", "first"):
        with segment(client, name) as mapped:
            assert mapped.view == PAYLOADS[name]
            assert (mapped.size, mapped.address % mmap.PAGESIZE) == (len(PAYLOADS[name]), 0)
            assert mapped.identity == client.scope(PACKAGE).payload(name).identity
            assert mapped.view.readonly


def test_eight_processes_have_one_payload_between_them(daemon: Daemon) -> None:
    before = filled(daemon)
    with Readers(daemon, "first", 8) as readers:
        mapped = [mapped_by(pid) for pid in readers.pids]
        assert len({inode for one in mapped for inode in one.inodes}) == 1
        assert sum(one.proportional for one in mapped) <= 1.1 * len(PAYLOADS["first"])
    assert filled(daemon) - before == 1, "it was decrypted once"
    assert daemon.metric("sealcar_payload_bytes_total", direction="read", delivery="segment")


def test_who_asks_while_it_is_filled_waits_for_it(daemon: Daemon) -> None:
    before = filled(daemon)
    seen: list[bool] = []

    def read() -> None:
        with daemon.connect() as own, segment(own, "first") as mapped:
            seen.append(mapped.view == PAYLOADS["first"])

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 6
    assert filled(daemon) - before == 1


def test_what_is_mapped_outlives_its_connection_and_its_daemons_copy(client: Client) -> None:
    mapped = segment(client, "over")
    client.close()
    assert mapped.view == PAYLOADS["over"]
    view = mapped.view
    del mapped
    assert view == PAYLOADS["over"], "the view keeps it"


def test_it_counts_until_the_last_process_that_has_it_is_gone(daemon: Daemon) -> None:
    with Readers(daemon, "first", leave=True) as readers, daemon.connect() as client:
        client.close()
        with daemon.connect() as other, pytest.raises(ExhaustedError) as caught:
            segment(other, "second")
        assert "memory_limit" in str(caught.value)
        assert mapped_by(readers.pids[0]).inodes
        # killed, without a word
        os.kill(readers.pids[0], signal.SIGKILL)
        with daemon.connect() as other, segment(other, "second") as mapped:
            assert mapped.view == PAYLOADS["second"]


def test_what_nobody_has_makes_room_for_others(daemon: Daemon, client: Client) -> None:
    before = filled(daemon)
    for name in ("first", "second", "first"):
        segment(client, name).close()
    assert filled(daemon) - before == 3
    segment(client, "first").close()
    assert filled(daemon) - before == 3, "it was kept"
    # a ring is made room for too
    assert client.scope(PACKAGE).read("second") == PAYLOADS["second"]
    assert memory(daemon) <= LIMIT


def test_one_that_could_never_fit_is_refused_at_once_with_the_remedy(client: Client) -> None:
    with pytest.raises(ExhaustedError, match="memory_limit") as caught:
        segment(client, "large")
    assert caught.value.place.payload == "large"
    with client.scope(PACKAGE).map("large") as mapped:
        assert mapped.view == PAYLOADS["large"]


def test_segments_leave_memory_for_those_who_read(daemon: Daemon) -> None:
    with Readers(daemon, "first"), daemon.connect() as client:
        assert client.scope(PACKAGE).read("second") == PAYLOADS["second"]


def test_a_lock_drops_it_and_names_who_has_it(daemon: Daemon) -> None:
    with Readers(daemon, "first", 2, leave=True) as readers:
        assert lock(daemon) >= set(readers.pids)
        # what is mapped can't be taken back
        assert memory(daemon) == len(PAYLOADS["first"])
        before = filled(daemon)
        with daemon.connect() as client, pytest.raises(ExhaustedError):
            segment(client, "first")
        assert filled(daemon) == before
    until(lambda: memory(daemon) == 0)
    with daemon.connect() as client, segment(client, "first") as mapped:
        assert mapped.view == PAYLOADS["first"]


def test_one_that_nobody_has_is_gone_when_the_lock_has_returned(
    daemon: Daemon, client: Client
) -> None:
    segment(client, "first").close()
    assert memory(daemon)
    gone: list[bool] = []
    lock(daemon, lambda: gone.append(memory(daemon) == 0))
    assert gone == [True]


def test_a_reader_whose_grant_was_taken_away_leaves_nothing_behind(
    daemon: Daemon, client: Client
) -> None:
    segment(client, "first").close()
    grant(daemon, "other")
    until(lambda: memory(daemon) == 0)
    grant(daemon, "*")
    with segment(client, "first") as mapped:
        assert mapped.view == PAYLOADS["first"]


def test_shredding_a_package_drops_its_segments_and_no_others(
    daemon: Daemon, client: Client
) -> None:
    publish(client, {"own": varied(3 * MIB)}, "shredded")
    client.scope("shredded", COMPONENT, VARIANT).map("own", shared=True).close()
    segment(client, "first").close()
    with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
        admin.shred("shredded")
    assert memory(daemon) == len(PAYLOADS["first"])


def test_a_damaged_payload_is_nobodys_and_its_memory_is_free_again(
    daemon: Daemon, client: Client
) -> None:
    publish(client, {"first": PAYLOADS["first"]}, "damaged")
    sealed = next(path for path in daemon.store.rglob("first") if "damaged" in path.parts)
    with sealed.open("r+b") as file:
        file.seek(10 << 20)
        file.write(b"damage")
    scope = client.scope("damaged", COMPONENT, VARIANT)
    for _ in range(2):
        with pytest.raises(NotAuthenticError) as caught:
            scope.map("first", shared=True)
        assert (caught.value.place.package, caught.value.place.payload) == ("damaged", "first")
    until(lambda: memory(daemon) == 0)


def test_what_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(NotFoundError):
        segment(client, "nothing")


def test_who_goes_while_it_is_filled_leaves_nothing_behind(daemon: Daemon) -> None:
    open_before = descriptors(daemon.pid)
    for _ in range(5):
        with RawClient(daemon) as raw:
            scope = pb.SegmentRequest(name="first")
            scope.scope.package.name = PACKAGE
            scope.scope.component, scope.scope.variant = COMPONENT, VARIANT
            raw.send(pb.ClientPacket(segment=scope))
    with daemon.connect() as client, segment(client, "second") as mapped:
        assert mapped.view == PAYLOADS["second"]
    lock(daemon)
    until(lambda: descriptors(daemon.pid) <= open_before and memory(daemon) == 0)


def test_a_daemon_of_an_older_release_is_asked_for_none_and_memory_is_private(
    daemon: Daemon,
) -> None:
    with OlderDaemon(daemon) as older:
        with sealcar.connect(older.socket) as client, segment(client, "first") as mapped:
            assert mapped.view == PAYLOADS["first"]
        assert "read" in older.asked
        assert "segment" not in older.asked
    assert not mapped_by(os.getpid()).inodes
