from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from support.daemon import Daemon
from support.grpcdoor import MIB, grpc_door, import_steps, pieces, refused, scope, write_steps
from support.onnx_bytes import TINY
from support.payload_packages import varied

from sealcar import errors
from sealcar.v1 import common_pb2
from sealcar.v1 import payloads_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.grpcdoor import Door

# one byte around the first segment's and a later segment's end
FIRST, PIECE = MIB - 56, MIB - 16
DATA = varied(3 * MIB + 1)
MODEL = common_pb2.PAYLOAD_KIND_MODEL
MANY = {f"blob-{at:05}-{'x' * 180}": b"b" for at in range(1500)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with grpc_door(daemon) as door:
            list(door.packages.Import(import_steps("p", {"model.onnx": DATA, "none": b""})))
        yield daemon


@pytest.fixture
def door(shared: Daemon) -> Iterator[Door]:
    with grpc_door(shared) as door:
        yield door


def read(door: Door, **request: object) -> bytes:
    asked = pb.ReadRequest(scope=scope("p"), name="model.onnx", **request)  # type: ignore[arg-type]  # its own fields
    return b"".join(answer.data for answer in door.payloads.Read(asked, timeout=60))


def begun_by(**fields: object) -> pb.WriteRequest:
    return pb.WriteRequest(begin=pb.WriteBegin(name="a", **fields))  # type: ignore[arg-type]  # its own fields


def begin(door: Door, variant: str) -> pb.BeginResponse:
    return door.payloads.Begin(pb.BeginRequest(scope=scope("p", variant=variant)))


def test_a_payload_is_read_whole_in_messages_of_at_most_512_kib(door: Door) -> None:
    asked = pb.ReadRequest(scope=scope("p"), name="model.onnx")
    answers = [answer.data for answer in door.payloads.Read(asked)]
    assert b"".join(answers) == DATA
    assert max(map(len, answers)) == 512 << 10


@pytest.mark.parametrize(
    "offset", [0, 1, FIRST - 1, FIRST, FIRST + PIECE, len(DATA) - 1, len(DATA)]
)
@pytest.mark.parametrize("length", [None, 0, 1, PIECE + 2])
def test_any_range_can_be_read(door: Door, offset: int, length: int | None) -> None:
    if length is None:
        assert read(door, offset=offset) == DATA[offset:]
    elif offset + length <= len(DATA):
        assert read(door, offset=offset, length=length) == DATA[offset : offset + length]
    else:
        with refused(errors.InvalidRequestError, "the payload has"):
            read(door, offset=offset, length=length)


def test_an_offset_beyond_the_end_is_refused(door: Door) -> None:
    with refused(errors.InvalidRequestError, "beyond the payload's"):
        read(door, offset=len(DATA) + 1)


def test_an_empty_payload_is_read_as_nothing(door: Door) -> None:
    asked = pb.ReadRequest(scope=scope("p"), name="none")
    assert not list(door.payloads.Read(asked))


def test_a_scope_lists_its_payloads_in_pages(door: Door) -> None:
    list(door.packages.Import(import_steps("many", MANY), timeout=120))
    found: list[str] = []
    request = pb.OpenRequest(scope=scope("many"))
    pages = 0
    while True:
        page = door.payloads.Open(request)
        pages += 1
        assert page.ByteSize() <= MIB // 4
        found += [one.name for one in page.variant.payloads]
        if not page.next_page_token:
            break
        request = pb.OpenRequest(scope=page.scope, page_token=page.next_page_token)
    assert pages > 1
    assert found == list(MANY)
    with refused(errors.InvalidRequestError, "page token"):
        door.payloads.Open(pb.OpenRequest(scope=scope("p"), page_token="7"))  # noqa: S106  (a place in a list)


@pytest.mark.parametrize("size", [0, 1, FIRST, FIRST + 1, FIRST + PIECE, 3 * MIB])
@pytest.mark.parametrize("step", [1 << 16, MIB])
def test_what_is_written_is_what_is_read(door: Door, size: int, step: int) -> None:
    data = DATA[:size]
    begun = begin(door, f"v{size}-{step}")
    assert begun.ttl_seconds == 300
    written = door.payloads.Write(write_steps(begun.transaction, "weights", pieces(data, step)))
    assert written.payload.size == size
    model = write_steps(begun.transaction, "m.onnx", [TINY], kind=MODEL)
    beside = door.payloads.Write(model)
    commit = pb.CommitRequest(transaction=begun.transaction, payloads=2, ep="QNN", device="npu")
    first = door.payloads.Commit(commit)
    assert door.payloads.Commit(commit) == first
    asked = pb.ReadRequest(scope=first.scope, name="weights")
    assert b"".join(answer.data for answer in door.payloads.Read(asked)) == data
    opened = door.payloads.Open(pb.OpenRequest(scope=first.scope))
    assert (opened.variant.ep, opened.variant.device) == ("QNN", "npu")
    assert list(opened.variant.payloads) == [written.payload, beside.payload]


def test_bytes_that_do_not_add_up_to_the_declared_size_are_refused(door: Door) -> None:
    begun = begin(door, "sized")
    for size, data in ((3, b"xx"), (3, b"xxxx"), (3, bytes(MIB))):
        with refused(errors.InvalidRequestError):
            door.payloads.Write(write_steps(begun.transaction, "m.onnx", [data], size=size))
    # a refused payload takes no name
    door.payloads.Write(write_steps(begun.transaction, "m.onnx", [b"xxx"], size=3))
    door.payloads.Abort(pb.AbortRequest(transaction=begun.transaction))


def test_a_name_is_written_once(door: Door) -> None:
    begun = begin(door, "twice")
    door.payloads.Write(write_steps(begun.transaction, "m.onnx", [b"1"]))
    for name in ("m.onnx", "M.ONNX"):
        with refused(errors.AlreadyExistsError):
            door.payloads.Write(write_steps(begun.transaction, name, [b"2"]))
    door.payloads.Abort(pb.AbortRequest(transaction=begun.transaction))


def test_an_aborted_transaction_leaves_nothing_and_takes_nothing(
    door: Door, shared: Daemon
) -> None:
    begun = begin(door, "gone")
    door.payloads.Write(write_steps(begun.transaction, "m.onnx", [b"1"]))
    for _ in range(2):
        door.payloads.Abort(pb.AbortRequest(transaction=begun.transaction))
    with refused(errors.WrongStateError):
        door.payloads.Write(write_steps(begun.transaction, "n.onnx", [b"1"]))
    with refused(errors.NotFoundError):
        door.payloads.Open(pb.OpenRequest(scope=scope("p", variant="gone")))
    assert not list((shared.store / ".staging").iterdir())


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([], errors.WrongStateError),
        ([pb.WriteRequest(data=b"x")], errors.WrongStateError),
        ([begun_by(kind=common_pb2.PAYLOAD_KIND_OTHER)], errors.NotFoundError),
        ([begun_by()], errors.InvalidRequestError),
        ([begun_by(kind=77)], errors.InvalidRequestError),
    ],
)
def test_a_write_out_of_turn_is_refused(
    door: Door, steps: list[pb.WriteRequest], error: type[errors.SealcarError]
) -> None:
    with refused(error):
        door.payloads.Write(iter(steps))


def test_begin_and_empty_data_may_not_follow_begin(door: Door) -> None:
    begun = begin(door, "turns")
    steps = list(write_steps(begun.transaction, "m.onnx", [b"1"]))
    with refused(errors.WrongStateError, "only data"):
        door.payloads.Write(iter([*steps, steps[0]]))
    with refused(errors.InvalidRequestError, "1 to 1048576 bytes"):
        door.payloads.Write(iter([*steps, pb.WriteRequest(data=b"")]))
    door.payloads.Abort(pb.AbortRequest(transaction=begun.transaction))


def test_a_write_that_its_client_gives_up_takes_no_name(door: Door) -> None:
    begun = begin(door, "given-up")
    waiting = threading.Event()

    def steps() -> Iterator[pb.WriteRequest]:
        yield from write_steps(begun.transaction, "m.onnx", [bytes(MIB)] * 3)
        waiting.wait(30)

    call = door.payloads.Write.future(steps())
    time.sleep(0.2)
    call.cancel()
    waiting.set()
    deadline = time.monotonic() + 30
    while True:
        try:
            door.payloads.Write(write_steps(begun.transaction, "m.onnx", [b"1"]))
            break
        except grpc.RpcError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    door.payloads.Abort(pb.AbortRequest(transaction=begun.transaction))


def test_a_transaction_that_nobody_uses_expires(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"transfer.transaction_ttl": "1s"}
    with (
        Daemon(tmp_path_factory.mktemp("d"), settings=settings) as daemon,
        grpc_door(daemon) as door,
    ):
        list(door.packages.Import(import_steps("p", {"model.onnx": b"m"})))
        begun = begin(door, "slow")
        assert begun.ttl_seconds == 1
        deadline = time.monotonic() + 30
        while list((daemon.store / ".staging").iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with refused(errors.WrongStateError):
            door.payloads.Write(write_steps(begun.transaction, "m.onnx", [b"1"]))


def test_one_uid_can_not_take_every_thread_with_streams(door: Door) -> None:
    begun = begin(door, "threads")
    ending = threading.Event()

    def steps(name: str) -> Iterator[pb.WriteRequest]:
        yield from write_steps(begun.transaction, name, [b"1"])
        ending.wait(60)

    calls = [door.payloads.Write.future(steps(f"{at}.onnx")) for at in range(12)]
    deadline = time.monotonic() + 30
    while sum(call.done() for call in calls) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # and calls that end at once are still answered
    door.payloads.Open(pb.OpenRequest(scope=scope("p")), timeout=10)
    ending.set()
    codes = [call.code() for call in calls]
    assert codes.count(grpc.StatusCode.OK) == 7
    assert codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 5
    door.payloads.Abort(pb.AbortRequest(transaction=begun.transaction))


def test_a_slow_reader_makes_the_relay_hold_back_not_hoard(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon, grpc_door(daemon) as door:
        list(door.packages.Import(import_steps("p", {"model.onnx": varied(64 * MIB)})))
        call = door.payloads.Read(pb.ReadRequest(scope=scope("p"), name="model.onnx"))
        next(call)
        time.sleep(1)
        labels = {"direction": "read", "delivery": "grpc"}
        assert daemon.metric("sealcar_payload_bytes_total", **labels) < 32 * MIB
        call.cancel()
