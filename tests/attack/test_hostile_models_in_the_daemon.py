"""Models that were made to harm, sent to the daemon by a client that checks nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
import pytest
from support.daemon import Daemon
from support.grpcdoor import grpc_door, package, pieces, refused, scope, write_steps
from support.hostile_models import KEYS, LOCATIONS, PLACES, many_nodes, many_tensors, nested_graphs
from support.onnx_bytes import TINY
from support.onnx_models import ep_context, external, inline, located, model, raw
from support.raw_clients import descriptors, until

from sealcar.errors import InternalError, InvalidPackageError, WrongStateError
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx
    from support.grpcdoor import Door

MODEL: Final = common_pb2.PAYLOAD_KIND_MODEL
DATA: Final = bytes(range(64))
FILES: Final = {
    "w.bin": (common_pb2.PAYLOAD_KIND_INITIALIZERS, DATA),
    "engine.bin": (common_pb2.PAYLOAD_KIND_BLOB, DATA),
}
NUMBERS: Final = ("-1", "49", str(2**63 - 1), str(2**63), str(2**64), "0x10", "1e3", " 8", "8 ", "")
# takes seconds to look at, and more memory than there is for it
GROWING: Final = many_nodes(5_000_000)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with grpc_door(daemon) as door:
            list(door.packages.Import(steps(TINY, "base")))
        yield daemon


@pytest.fixture
def door(daemon: Daemon) -> Iterator[Door]:
    with grpc_door(daemon) as door:
        yield door


@pytest.fixture(autouse=True)
def unharmed(daemon: Daemon) -> Iterator[None]:
    """Afterwards nothing is staged, no process is left, and the daemon takes honest models."""
    before = descriptors(daemon.pid)
    yield
    until(lambda: not staged(daemon) and not children(daemon))
    until(lambda: descriptors(daemon.pid) <= before + 2)
    with grpc_door(daemon) as door:
        list(
            door.packages.Import(
                steps(raw(model(located("w.bin"))), f"after-{time.monotonic_ns()}")
            )
        )


def steps(
    data: bytes,
    name: str = "hostile",
    files: Mapping[str, tuple[common_pb2.PayloadKind.ValueType, bytes]] = FILES,
) -> Iterator[pb.ImportRequest]:
    components: dict[str, object] = {"c": {"variants": {"v": {}}}}
    manifest = json.dumps({"schema_version": "1.0", "components": components})
    yield pb.ImportRequest(begin=pb.ImportBegin(package=package(name), manifest_json=manifest))
    payloads = {**files, "m.onnx": (MODEL, data)}
    for each, (kind, content) in payloads.items():
        announced = pb.ImportPayload(
            component="c", variant="v", name=each, kind=kind, size=len(content)
        )
        yield pb.ImportRequest(payload=announced)
        for piece in pieces(content):
            yield pb.ImportRequest(data=piece)
    yield pb.ImportRequest(finish=pb.ImportFinish(payloads=len(payloads)))


def staged(daemon: Daemon) -> list[Path]:
    return list((daemon.store / ".staging").iterdir())


def children(daemon: Daemon) -> list[int]:
    """Return the processes that look at models."""
    found: list[int] = []
    for task in Path(f"/proc/{daemon.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if looks(child)]


def looks(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return b"sealcar.onnxscan.checking" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def filters(pid: int) -> int:
    """Return how many filters there are on a process's system calls: its parent's count too."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("Seccomp_filters:")[1].split()[0])


@contextlib.contextmanager
def looked_at(door: Door, daemon: Daemon, data: bytes) -> Iterator[int]:
    """Have a model looked at; give the process while it does, and return once the call ended."""
    failed: list[BaseException] = []

    def call() -> None:
        try:
            list(door.packages.Import(steps(data)))
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failed.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    until(lambda: bool(children(daemon)))
    (child,) = children(daemon)
    # the last thing that it gives up before it reads the model
    until(lambda: filters(child) > filters(daemon.pid))
    try:
        yield child
    finally:
        calling.join(120)
    assert not calling.is_alive()
    if failed:
        raise failed[0]


def import_refused(door: Door, proto: onnx.ModelProto | bytes, text: str = "") -> None:
    with refused(InvalidPackageError, text):
        list(door.packages.Import(steps(proto if isinstance(proto, bytes) else raw(proto))))


def test_a_location_that_is_no_plain_name_in_the_variant_is_refused(door: Door) -> None:
    for location in LOCATIONS:
        import_refused(door, model(located(location)), "'W'")


def test_keys_that_are_unknown_missing_or_doubled_are_refused_by_the_daemon(door: Door) -> None:
    for entries in KEYS:
        import_refused(door, model(external("W", 4, *entries)), "'W'")


def test_data_outside_of_its_file_or_of_its_shape_is_refused(door: Door) -> None:
    for number in NUMBERS:
        import_refused(door, model(located("w.bin", offset=number)), "'W'")
    for number in ("0", "15", "17", str(2**62), *NUMBERS[:-1]):
        import_refused(door, model(located("w.bin", length=number)), "'W'")
    whole, half = located("w.bin"), located("w.bin", offset="8")
    half.name = "V"
    import_refused(door, model(whole, half), "overlaps")
    import_refused(door, model(located("engine.bin")), "of kind blob")
    import_refused(door, model(located("m.onnx")), "of kind model")


def test_a_reference_is_found_by_the_daemon_wherever_it_hides(door: Door) -> None:
    for place in PLACES:
        for location in ("../secret", "*/_ORT_MEM_ADDR_/*"):
            import_refused(door, place(located(location)), "'W'")
    for place in PLACES[1:]:
        import_refused(door, place(located("w.bin")), "'W'")


def test_a_compiled_model_that_leads_out_of_its_variant_is_refused(door: Door) -> None:
    names = (
        *LOCATIONS[:11],
        ".",
        "..",
        "a/b.bin",
        "engine.bin\0x",
        "w.bin",
        "missing.bin",
        "x" * 300,
    )
    for name in names:
        node = ep_context(embed_mode=0, ep_cache_context=name, main_context=1)
        import_refused(door, model(nodes=[node]))
    for attributes in (
        {"ep_cache_context": "engine.bin", "main_context": 1},
        {"embed_mode": 2},
        {"embed_mode": 0, "main_context": 0},
        {"embed_mode": 1, "ep_cache_context": "x", "onnx_model_filename": "engine.bin"},
    ):
        import_refused(door, model(nodes=[ep_context(**attributes)]))


def test_what_is_no_model_or_two_things_is_refused(door: Door) -> None:
    for data in (b"", b"\0", b"\x3a\x05ab", b"\x3a" + b"\xff" * 20, b"\x3a\x00\x3a\x00", DATA * 99):
        import_refused(door, data)
    import_refused(door, nested_graphs(3000), "nested")
    import_refused(door, b"\x08\x07\x12\x04ORTM" + TINY, "taken for")
    both = located("w.bin")
    both.raw_data = bytes(16)
    import_refused(door, model(both), "both")


def test_a_model_in_a_shared_asset_is_looked_at_too(door: Door) -> None:
    def asset(data: bytes) -> Iterator[pb.ImportRequest]:
        digest = hashlib.sha256(data).hexdigest()
        uri = "sha256:" + hashlib.sha256(f"{digest}  m.onnx\n".encode()).hexdigest()
        first, *rest, last = steps(TINY)
        yield from (first, *rest)
        shared = pb.ImportPayload(asset=uri, name="m.onnx", kind=MODEL, size=len(data))
        yield pb.ImportRequest(payload=shared)
        yield pb.ImportRequest(data=data)
        yield pb.ImportRequest(finish=pb.ImportFinish(payloads=last.finish.payloads + 1))

    with refused(InvalidPackageError, "'W'"):
        list(door.packages.Import(asset(raw(model(located("w.bin"))))))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "gone.bin", "w.bin\0"])
def test_a_commit_of_such_a_model_is_refused_and_ends_its_transaction(
    door: Door, location: str
) -> None:
    target = scope("base", variant="compiled")
    begun = door.payloads.Begin(payloads_pb2.BeginRequest(scope=target))
    data = raw(model(located(location)))
    door.payloads.Write(write_steps(begun.transaction, "m.onnx", [data], kind=MODEL))
    commit = payloads_pb2.CommitRequest(transaction=begun.transaction, payloads=1)
    with refused(InvalidPackageError, "'W'"):
        door.payloads.Commit(commit)
    with refused(WrongStateError, "aborted"):
        door.payloads.Commit(commit)
    assert door.packages.Get(pb.GetRequest(package=package("base"))).summary.generation == 1


def test_a_hundred_thousand_tensors_that_lead_nowhere_are_refused(door: Door) -> None:
    import_refused(door, many_tensors(located("gone.bin"), 100_000), "'W'")


@pytest.mark.root
def test_the_process_that_looks_holds_nothing_and_can_do_nothing_and_its_growth_ends_it(
    door: Door, daemon: Daemon
) -> None:
    key = bytes.fromhex((daemon.folder / "kek").read_text().split()[-1])
    # so that finding nothing means something
    assert holds(daemon.pid, key)
    with refused(InvalidPackageError, "memory"), looked_at(door, daemon, GROWING) as child:
        os.kill(child, signal.SIGSTOP)
        try:
            proc = Path(f"/proc/{child}")
            assert not (proc / "environ").read_bytes()
            opened = {int(fd.name): str(fd.readlink()) for fd in (proc / "fd").iterdir()}
            assert opened.pop(1).startswith("pipe:")
            assert opened.pop(2) == "/dev/null"
            # of the mapping, for reading only; the orders are read and closed
            assert list(opened.values()) == ["/memfd:sealcar-model (deleted)"]
            assert str((proc / "cwd").readlink()) == "/"
            status = dict(
                line.split(":\t", 1) for line in (proc / "status").read_text().splitlines()
            )
            assert status["NoNewPrivs"] == "1"
            limits = (proc / "limits").read_text()
            for limit in ("open files", "processes", "core file size", "file size"):
                assert re.search(rf"Max {limit} +0 +0 ", limits), limit
            assert os.getsid(child) == child
            assert holds(child, GROWING[:4096])
            assert not holds(child, key)
        finally:
            os.kill(child, signal.SIGCONT)


def holds(pid: int, needle: bytes) -> bool:
    with (
        Path(f"/proc/{pid}/maps").open() as maps,
        Path(f"/proc/{pid}/mem").open("rb", 0) as memory,
    ):
        for line in maps:
            start, end = (int(text, 16) for text in line.split()[0].split("-"))
            with contextlib.suppress(OSError, OverflowError):
                if needle in os.pread(memory.fileno(), end - start, start):
                    return True
    return False


def test_a_process_that_is_killed_while_it_looks_publishes_nothing(
    door: Door, daemon: Daemon
) -> None:
    with refused(InternalError, "SIGKILL"), looked_at(door, daemon, GROWING) as child:
        os.kill(child, signal.SIGKILL)


def test_a_process_that_hangs_is_ended_after_the_time_that_is_set(tmp_path: Path) -> None:
    settings = {"limits.check_time": "5s"}
    with (
        Daemon(tmp_path, settings=settings) as hurried,
        grpc_door(hurried) as door,
        refused(InvalidPackageError, "limits.check_time"),
        looked_at(door, hurried, GROWING) as child,
    ):
        os.kill(child, signal.SIGSTOP)


@pytest.mark.root
def test_the_process_ends_with_the_daemon(tmp_path: Path) -> None:
    with Daemon(tmp_path) as killed, grpc_door(killed) as door:
        with contextlib.suppress(grpc.RpcError), looked_at(door, killed, GROWING) as child:
            killed.kill()
            until(lambda: not looks(child))
            ended = True
        assert ended
        killed.start()


def test_an_honest_model_costs_a_fraction_of_a_second(door: Door) -> None:
    target = scope("base", variant="honest")
    data = raw(model(inline("W", [1, 2, 3, 4])))
    taken = []
    for _ in range(5):
        begun = door.payloads.Begin(payloads_pb2.BeginRequest(scope=target))
        door.payloads.Write(write_steps(begun.transaction, "m.onnx", [data], kind=MODEL))
        start = time.monotonic()
        door.payloads.Commit(payloads_pb2.CommitRequest(transaction=begun.transaction, payloads=1))
        taken.append(time.monotonic() - start)
    assert sorted(taken)[2] < 2
