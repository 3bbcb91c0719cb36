"""Weights of a process's own are used where they lie: by whoever needs them, and no longer."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import secrets
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import flows, onnx_models
from support.daemon import Daemon
from support.onnx_bytes import TINY
from support.payload_packages import PlannedBytes, PlannedPackage
from support.raw_clients import until

from sealcar import onnxscan
from sealcar.client import Client
from sealcar.errors import DamagedError, WrongStateError
from sealcar.ort import ahead, lending, load, models, runtime, scopes
from sealcar.ort.sources import SealedSource
from sealcar.transfer.memory import PrivateMemory
from sealcar.transfer.payloads import PayloadReader
from sealcar.transfer.pool import CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB: Final = 1 << 20
CPU: Final = ("CPUExecutionProvider",)
WIDTH: Final = 512
SIZE: Final = WIDTH * WIDTH * 4
_random: Final = np.random.default_rng(flows.fresh_seed())


def model(
    operator: str, count: int, kind: int = TensorProto.FLOAT, at: int = 0
) -> tuple[bytes, bytes]:
    """Return a model of so many equal nodes with a weight each, and the file of all weights."""
    nodes, weights, last = [], [], "x"
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    data = b"\0" * at
    for number in range(count):
        weight = TensorProto(name=f"w{number}", data_type=kind, dims=[WIDTH, WIDTH])
        weight.data_location = TensorProto.EXTERNAL
        value = (_random.random((WIDTH, WIDTH)) / WIDTH).astype(dtype).tobytes()
        entries = (("location", "w"), ("offset", len(data)), ("length", len(value)))
        for key, text in entries:
            weight.external_data.add(key=key, value=str(text))
        data += value
        weights.append(weight)
        nodes.append(helper.make_node(operator, [last, f"w{number}"], [f"y{number}"]))
        last = f"y{number}"
    shape = [1, WIDTH] if operator == "MatMul" else [WIDTH, WIDTH]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(last, kind, shape)],
        weights,
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), data


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        yield daemon


def take_in(client: Client, made: bytes, weights: bytes, **more: bytes) -> str:
    name = secrets.token_hex(4)
    planned = [PlannedBytes("m.onnx", "model", made), PlannedBytes("w", "initializers", weights)]
    planned += [PlannedBytes(each, "blob", data) for each, data in more.items()]
    client.catalogue.import_(PlannedPackage(tuple(planned), name))
    return name


def run(session: Any, operator: str) -> Any:  # noqa: ANN401  (untyped runtime)
    shape = (1, WIDTH) if operator == "MatMul" else (WIDTH, WIDTH)
    return session.run(None, {"x": np.ones(shape, np.float32)})[0]


def expected(operator: str, weights: bytes) -> Any:  # noqa: ANN401  (an array)
    made = np.ones((1, WIDTH) if operator == "MatMul" else (WIDTH, WIDTH), np.float32)
    for weight in np.frombuffer(weights, np.float32).reshape(-1, WIDTH, WIDTH):
        made = made @ weight if operator == "MatMul" else made + weight
    return made


def drop(handles: list[Any], at: int) -> None:
    """Let a handle go; a client wants to be closed."""
    if isinstance(handles[at], Client):
        handles[at].close()
    handles[at] = None
    gc.collect()


def huge() -> int:
    """Return how many bytes of anonymous memory this process has."""
    gc.collect()
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10
    raise AssertionError("the kernel doesn't tell")


@pytest.mark.parametrize("operator", ["MatMul", "Add"])
def test_a_session_takes_the_memory_of_its_weights_once(client: Client, operator: str) -> None:
    count = 24
    made, weights = model(operator, count)
    name = take_in(client, made, weights)
    want = expected(operator, weights)
    taken, left = [], []
    # what other threads of this process take meanwhile isn't the weights': the least of each tells
    for _ in range(4):
        before = huge()
        session = load(client, name, providers=CPU)
        taken.append(huge() - before)
        np.testing.assert_allclose(run(session, operator), want, rtol=1e-3)
        del session
        left.append(huge() - before)
    assert min(taken) < count * SIZE * 1.3, "packed or lent, and never both"
    assert min(left) < count * SIZE * 0.3


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3])
def test_handles_go_in_every_order_and_take_nothing_with_them(
    daemon: Daemon, order: tuple[int, ...]
) -> None:
    made, weights = model("Add", 2)
    client = daemon.connect()
    name = take_in(client, made, weights)
    want = expected("Add", weights)
    options = runtime.onnxruntime().SessionOptions()
    session = load(client, name, session_options=options, providers=CPU)
    handles: list[Any] = [client, client.scope(name).map("w"), options, object()]
    handles[3] = handles[1].view
    del client, options
    for each in order:
        drop(handles, each)
        np.testing.assert_allclose(run(session, "Add"), want, rtol=1e-3)


def test_weights_lent_to_options_are_never_taken_for_another_models(client: Client) -> None:
    made, weights = model("Add", 2)
    inline = onnx.load_from_string(made)
    for each in inline.graph.initializer:
        each.ClearField("external_data")
        each.data_location, each.raw_data = TensorProto.DEFAULT, weights[:SIZE]
    first = take_in(client, made, weights)
    other = take_in(client, inline.SerializeToString(), b"unused")
    options = runtime.onnxruntime().SessionOptions()
    load(client, first, session_options=options, providers=CPU)
    with pytest.raises(WrongStateError, match="make new ones"):
        load(client, other, session_options=options, providers=CPU)
    session = load(client, other, providers=CPU)
    np.testing.assert_allclose(run(session, "Add"), expected("Add", weights[:SIZE] * 2), rtol=1e-3)


def test_sessions_made_and_dropped_by_many_threads_leave_nothing(daemon: Daemon) -> None:
    made, weights = model("Add", 2)
    with daemon.connect() as client:
        name = take_in(client, made, weights)
    want = expected("Add", weights)
    wrong: list[BaseException] = []

    def one(kind: str, at: int) -> None:
        try:
            for turn in range(2):
                client = daemon.connect()
                mapped = client.scope(name).map("w", shared=kind == "shared")
                session = load(client, name, providers=CPU, initializers=kind)  # type: ignore[call-overload]  # one of the two
                handles: list[Any] = [client, mapped, mapped.view]
                del client, mapped
                for each in range(len(handles)):
                    drop(handles, (each + at + turn) % len(handles))
                    np.testing.assert_allclose(run(session, "Add"), want, rtol=1e-5)
        except BaseException as error:  # noqa: BLE001  (told by the test's own thread)
            wrong.append(error)

    one("private", 0)
    one("shared", 0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    threads = [
        threading.Thread(target=one, args=(kind, at))
        for at in range(2)
        for kind in ("private", "shared")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    # all memory is in these two; allocators keep too much for threads to count bytes
    assert not [one for one in gc.get_objects() if isinstance(one, PrivateMemory)]
    assert "sealcar-segment" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_each_type_is_lent_where_it_lies(kind: int) -> None:
    made, weights = model("Add", 2, kind, at=4096)
    found = onnx.load_from_string(made).graph.initializer
    scanned = onnxscan.scan(made).external
    files = {"./w": memoryview(weights)}
    lent = lending.lend(scanned, files, own=True)
    assert set(lent.values) == {one.name for one in found}
    start = np.frombuffer(weights, "u1").ctypes.data
    offsets = sorted(value.data_ptr() - start for value in lent.values.values())
    assert offsets == [4096, 4096 + len(weights[4096:]) // 2]
    assert len(lent.kept) == (2 if kind == TensorProto.BFLOAT16 else 0)


def test_a_weight_that_is_done_with_gives_its_memory_back_while_its_neighbour_is_used() -> None:
    made, weights = model("Add", 2)
    mapped = PrivateMemory(len(weights))
    ctypes.memmove(mapped.address, weights, len(weights))
    mapped.freeze()
    lent = lending.lend(onnxscan.scan(made).external, {"./w": mapped.view()}, own=True)
    del lent.values["w0"]
    assert mapped.view() == bytes(SIZE) + weights[SIZE:]


def test_weights_that_share_bytes_keep_them(client: Client) -> None:
    made, weights = model("Add", 2)
    twice = onnx.load_from_string(made)
    # this one is packed, and the other is used where it lies
    twice.graph.node[0].op_type = "MatMul"
    for entry in twice.graph.initializer[1].external_data:
        if entry.key == "offset":
            entry.value = "0"
    name = take_in(client, twice.SerializeToString(), weights)
    session = load(client, name, providers=CPU)
    gc.collect()
    weight = np.frombuffer(weights[:SIZE], np.float32).reshape(WIDTH, WIDTH)
    answer = np.ones((WIDTH, WIDTH), np.float32) @ weight + weight
    np.testing.assert_allclose(run(session, "Add"), answer, rtol=1e-3)


@pytest.mark.parametrize(
    ("key", "value"), [("length", SIZE - 4), ("length", SIZE + 4), ("offset", 4)]
)
def test_nothing_is_lent_beyond_its_file(key: str, value: int) -> None:
    made, weights = model("Add", 1)
    changed = onnx.load_from_string(made)
    for entry in changed.graph.initializer[0].external_data:
        entry.value = str(value) if entry.key == key else entry.value
    scanned = onnxscan.scan(changed.SerializeToString()).external
    assert not lending.lend(scanned, {"./w": memoryview(weights)}, own=True).values


def test_of_two_weights_with_one_name_none_is_lent() -> None:
    made, weights = model("Add", 2)
    changed = onnx.load_from_string(made)
    changed.graph.initializer[1].name = "w0"
    scanned = onnxscan.scan(changed.SerializeToString()).external
    assert not lending.lend(scanned, {"./w": memoryview(weights)}, own=True).values


def test_a_tensor_that_straddles_segments_is_whole(client: Client) -> None:
    # a segment of ciphertext holds 16 bytes less than a MiB: each weight lies in two
    made, weights = model("Add", 3, at=MIB // 2)
    name = take_in(client, made, weights)
    session = load(client, name, providers=CPU)
    np.testing.assert_allclose(run(session, "Add"), expected("Add", weights[MIB // 2 :]), rtol=1e-3)


def test_what_was_read_ahead_and_not_asked_for_holds_no_connection(client: Client) -> None:
    blobs = {each: bytes([at]) * (2 * MIB) for at, each in enumerate("abc", 1)}
    name = take_in(client, TINY, b"w" * MIB, **blobs)
    scope = client.scope(name)
    targets: dict[str, bytearray] = {}

    def into(each: str) -> Callable[[int], int]:
        def allocate(size: int) -> int:
            targets[each] = bytearray(size)
            return np.frombuffer(targets[each], "u1").ctypes.data

        return allocate

    for asked in ("cab", "aab", "ccc", ""):
        with ahead.BlobAhead(scope, "a") as blob_ahead:
            assert client._pool._leased == 1
            for each in asked:
                blob_ahead.fill(each, into(each))
                assert targets[each] == blobs[each]
                assert client._pool._leased == 0
    assert client._pool._leased == 0


def test_a_blob_that_three_nodes_name_is_decrypted_once(daemon: Daemon, client: Client) -> None:
    nodes = [
        onnx_models.ep_context(f"n{at}", embed_mode=0, main_context=1, ep_cache_context=blob)
        for at, blob in enumerate("aaabb")
    ]
    graph = helper.make_graph(nodes, "g", [], [])
    blobs = {each: secrets.token_bytes(2 * MIB) for each in "ab"}
    name = take_in(client, helper.make_model(graph).SerializeToString(), b"w", **blobs)
    source = SealedSource(client.scope(name))
    found = models.read(source)
    assert found.repeated == {"a"}
    reader = scopes.BlobReader(source, found.blobs, lambda: ahead.Held(source.view, found.repeated))
    target = bytearray(2 * MIB)
    before = flows.decrypted(daemon)

    def ask(blob: str) -> None:
        reader(blob, lambda _: np.frombuffer(target, "u1").ctypes.data)
        assert target == blobs[blob]
        target[:] = bytes(2 * MIB)

    reader.expect()
    for blob in "abaa":
        ask(blob)
    assert flows.decrypted(daemon) - before == 4 * MIB
    reader.settle()
    ask("a")
    assert flows.decrypted(daemon) - before == 6 * MIB


def test_a_transfer_that_the_daemon_gave_up_is_begun_anew_in_the_same_memory(
    client: Client,
) -> None:
    blob = bytes(range(256)) * (MIB // 64)
    scope = client.scope(take_in(client, TINY, b"w", a=blob))
    target, asked = bytearray(len(blob)), []

    def allocate(size: int) -> int:
        asked.append(size)
        return np.frombuffer(target, "u1").ctypes.data

    with ahead.BlobAhead(scope, "a") as blob_ahead:
        assert isinstance(blob_ahead._ready, PayloadReader)
        blob_ahead._ready._connection._sock.shutdown(socket.SHUT_RDWR)
        blob_ahead.fill("a", allocate)
    assert (bytes(target), asked) == (blob, [len(blob)])


def test_weights_come_before_they_are_asked_for(daemon: Daemon, client: Client) -> None:
    source = SealedSource(client.scope(take_in(client, TINY, bytes(SIZE))))
    before = flows.decrypted(daemon)
    source.expect()
    until(lambda: flows.decrypted(daemon) > before)
    source.settle()


# the second one is large enough that the session is made while it comes
@pytest.mark.parametrize("count", [1, 12])
def test_damaged_weights_are_named_though_another_thread_found_them(
    daemon: Daemon, client: Client, count: int
) -> None:
    name = take_in(client, *model("MatMul", count))
    path = next(daemon.store.glob(f"{name}/1/g/*/*/*/w"))
    with path.open("r+b") as file:
        file.seek(SIZE * count // 2)
        file.write(secrets.token_bytes(32))
    with pytest.raises(DamagedError) as caught:
        load(client, name, providers=CPU)
    assert caught.value.place.payload == "w"
    until(lambda: "weights" not in {each.name for each in threading.enumerate()})


def test_reading_ahead_leaves_connections_to_whoever_needs_one_now(client: Client) -> None:
    name = take_in(client, TINY, b"w", a=bytes(2 * MIB))
    scope = client.scope(name)
    with contextlib.ExitStack() as ready:
        for _ in range(CONNECTIONS):
            ready.enter_context(ahead.BlobAhead(scope, "a"))
        assert client._pool._leased == CONNECTIONS // 2
        assert scope.read("w") == b"w"
