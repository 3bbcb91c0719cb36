"""What is got ready before anybody asks for it is there when he does, and only for who may."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, answer
from support.onnx_bytes import TINY
from support.payload_packages import (
    COMPONENT,
    PACKAGE,
    VARIANT,
    PlannedBytes,
    PlannedPackage,
    varied,
)
from support.raw_clients import until

from sealcar.admin import Admin
from sealcar.errors import DamagedError, ExhaustedError, NotFoundError
from sealcar.transfer.scopes import ScopeName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import Client
    from sealcar.catalogue import Progress

MIB: Final = 1 << 20
BLOB, WEIGHTS = varied(3 * MIB + 5), varied(4 * MIB + 1)
LARGE: Final = varied(13 * MIB)
SCOPE: Final = ScopeName(PACKAGE, COMPONENT, VARIANT)
SETTINGS: Final = {
    "transfer.memory_limit": "16MiB",
    "transfer.wait": "0.5",
    "prefetch.packages": "unknown,m/nowhere,m",
    "prefetch.shared": "true",
}


def take_in(client: Client, name: str, weights: bytes) -> None:
    planned = (
        PlannedBytes("model.onnx", "model", TINY),
        PlannedBytes("b", "blob", BLOB),
        PlannedBytes("w", "initializers", weights),
    )
    client.catalogue.import_(PlannedPackage(planned, name))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d"), settings=SETTINGS) as daemon:
        with daemon.connect() as client:
            take_in(client, PACKAGE, WEIGHTS)
            take_in(client, "large", LARGE)
            take_in(client, "damaged", WEIGHTS)
        yield daemon


def filled(daemon: Daemon) -> float:
    return daemon.metric("sealcar_phase_seconds_count", phase="fill")


def ready(daemon: Daemon, delivery: str) -> float:
    return daemon.metric("sealcar_prefetched_bytes_total", delivery=delivery)


def lock_and_unlock(daemon: Daemon) -> None:
    with Admin(daemon.admin, peer_uid=os.getuid()) as admin:
        admin.lock()
        admin.unlock()


def resident(daemon: Daemon, payload: str) -> float:
    """Return how much of a payload's file lies in the page cache, 0 to 1."""
    path = next(daemon.store.glob(f"{PACKAGE}/1/g/*/{COMPONENT}/{VARIANT}/{payload}"))
    with path.open("rb") as file:
        # without waiting for a disk, only what is in memory can be read
        there = sum(_cached(file.fileno(), at) for at in range(0, path.stat().st_size, 4096))
    return there / -(-path.stat().st_size // 4096)


def _cached(fd: int, at: int) -> bool:
    try:
        return bool(os.preadv(fd, [bytearray(1)], at, os.RWF_NOWAIT))
    except BlockingIOError:
        return False


def forget(daemon: Daemon) -> None:
    for path in daemon.store.glob(f"{PACKAGE}/1/g/*/{COMPONENT}/{VARIANT}/*"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_variant_is_in_the_page_cache_when_the_call_ends(daemon: Daemon, client: Client) -> None:
    steps: list[Progress] = []
    forget(daemon)
    before = ready(daemon, "cache")
    found = client.catalogue.prefetch(SCOPE, progress=steps.append)
    size = len(BLOB) + len(WEIGHTS) + len(TINY)
    assert (found.payloads, found.size, found.shared) == (3, size, 0)
    assert (found.scope.version, found.scope.generation) == ("1", 1)
    assert [resident(daemon, one) for one in ("b", "w")] == [1.0, 1.0]
    assert ready(daemon, "cache") - before == size
    assert steps
    assert all(step.done <= step.total == size for step in steps[-1:])


def test_shared_weights_are_there_for_the_first_who_maps_them(
    daemon: Daemon, client: Client
) -> None:
    lock_and_unlock(daemon)
    until(lambda: filled(daemon) > 0)
    client.catalogue.prefetch(SCOPE, shared=True)
    before = filled(daemon)
    found = client.catalogue.prefetch(SCOPE, shared=True)
    assert found.shared == len(WEIGHTS)
    assert daemon.metric("sealcar_transfers") == 0
    with client.scope(PACKAGE).map("w", shared=True) as mapped:
        assert mapped.view == WEIGHTS
    assert filled(daemon) == before


@pytest.mark.parametrize(("size", "shared"), [(4 * MIB, True), (MIB, False)])
def test_a_model_that_has_its_weights_inside_is_there_too_from_the_size_that_is_mapped(
    daemon: Daemon, client: Client, size: int, *, shared: bool
) -> None:
    # as ONNX Runtime's own format begins
    model = b"\x1c\0\0\0ORTM" + varied(size - 8)
    name = f"inside{size}"
    planned = (PlannedBytes("m.ort", "model", model),)
    client.catalogue.import_(PlannedPackage(planned, name))
    found = client.catalogue.prefetch(ScopeName(name, COMPONENT, VARIANT), shared=True)
    assert found.shared == (size if shared else 0)
    before = filled(daemon)
    with client.scope(name).map("m.ort", shared=True) as mapped:
        assert mapped.view == model
    assert filled(daemon) == before + (not shared)


def test_what_the_settings_list_is_ready_after_each_unlocking(daemon: Daemon) -> None:
    before = ready(daemon, "segment"), filled(daemon)
    lock_and_unlock(daemon)
    until(lambda: ready(daemon, "segment") - before[0] == len(WEIGHTS))
    assert filled(daemon) - before[1] == 1
    reasons = [line["reason"] for line in daemon.log if "isn't got ready" in str(line["event"])]
    assert any("unknown" in str(reason) for reason in reasons)
    assert f"{PACKAGE}/nowhere has no variant" in reasons
    with daemon.connect() as client, client.scope(PACKAGE).map("w", shared=True) as mapped:
        assert mapped.view == WEIGHTS
    assert filled(daemon) - before[1] == 1


def test_more_than_a_user_may_have_is_refused_and_less_gives_way(
    daemon: Daemon, client: Client
) -> None:
    with pytest.raises(ExhaustedError, match=r"transfer\.memory_limit"):
        client.catalogue.prefetch(ScopeName("large", COMPONENT, VARIANT), shared=True)
    client.catalogue.prefetch(SCOPE, shared=True)
    # a ring takes its eight MiB from what nobody has
    assert client.scope("large").read("w") == LARGE
    assert daemon.metric("sealcar_memory_bytes") <= 16 * MIB


def test_a_damaged_payload_is_named(daemon: Daemon, client: Client) -> None:
    path = next(daemon.store.glob(f"damaged/1/g/*/{COMPONENT}/{VARIANT}/w"))
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(DamagedError) as caught:
        client.catalogue.prefetch(ScopeName("damaged", COMPONENT, VARIANT))
    assert caught.value.place.payload == "w"


def test_the_command_gets_a_whole_package_ready(daemon: Daemon) -> None:
    socket = ("--socket", str(daemon.socket))
    said = answer("prefetch", PACKAGE, *socket)
    one = {"address": f"{PACKAGE}@1/{COMPONENT}/{VARIANT}", "generation": 1, "payloads": 3}
    assert [{**one, "shared": 0}] == [
        {key: value for key, value in each.items() if key != "size"} for each in said["variants"]
    ]
    said = answer("prefetch", f"{PACKAGE}@1/{COMPONENT}/{VARIANT}", "--shared", *socket)
    assert [each["shared"] for each in said["variants"]] == [len(WEIGHTS)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ((f"{PACKAGE}/{COMPONENT}/none",), 1),
        ((f"{PACKAGE}@9/{COMPONENT}/{VARIANT}",), 1),
        ((f"{PACKAGE}/{COMPONENT}/{VARIANT}", "--generation", "9"), 1),
        ((f"{PACKAGE}/{COMPONENT}/{VARIANT}/w",), 2),
    ],
)
def test_the_command_refuses_what_is_no_variant(
    daemon: Daemon, wanted: tuple[str, ...], code: int
) -> None:
    assert answer("prefetch", *wanted, "--socket", str(daemon.socket), code=code)["error"]


def test_who_may_not_read_gets_nothing_ready(daemon: Daemon, client: Client) -> None:
    text, generation = daemon.policy.read_text(), daemon.metric("sealcar_policy_generation")
    size = len(WEIGHTS)
    client.catalogue.prefetch(SCOPE, shared=True)
    assert daemon.metric("sealcar_memory_bytes") >= size
    try:
        daemon.policy.write_text(text.replace('packages = ["*"]', 'packages = ["large"]'))
        os.kill(daemon.pid, signal.SIGHUP)
        until(lambda: daemon.metric("sealcar_policy_generation") > generation)
        with pytest.raises(NotFoundError):
            client.catalogue.prefetch(SCOPE)
    finally:
        daemon.policy.write_text(text)
        os.kill(daemon.pid, signal.SIGHUP)
        until(lambda: daemon.metric("sealcar_policy_generation") > generation + 1)


def test_every_step_is_accounted_for(daemon: Daemon, client: Client) -> None:
    client.catalogue.prefetch(SCOPE)
    time.sleep(0.1)
    log = "".join(path.read_text() for path in daemon.folder.rglob("audit*/*") if path.is_file())
    assert "prefetch.packages" in log
    assert '"payload":"w"' in log.replace('": "', '":"')
