"""What tests/native/c_packets.c takes: answers of a daemon to the C client, honest ones first.

`python -m tests.fuzz.c_packets FOLDER` writes them there, as a corpus to begin with.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE: Final = 20_000
_SLOT: Final = 4096
_OPENS, _READS, _WRITES, _COMMITS = range(4)
_RING, _OTHER = 6, 4  # which memory: of 8 slots, sealed as a ring is; one that could still change
_SCOPE: Final = common_pb2.Scope(
    package=common_pb2.PackageRef(name="m", version="1"), component="c", variant="v", generation=7
)


def _input(asked: int, *packets: pb.DaemonPacket, memory: int = _RING) -> bytes:
    made = bytes([asked])
    for packet in packets:
        data = packet.SerializeToString()
        along = memory if packet.WhichOneof("packet") in ("ring", "write_ring") else 0
        made += len(data).to_bytes(2, "little") + bytes([along]) + data
    return made


def _page(*names: str, more: str = "") -> pb.DaemonPacket:
    payloads = [
        common_pb2.PayloadInfo(name=name, kind=common_pb2.PAYLOAD_KIND_BLOB, size=5, sealed=True)
        for name in names
    ]
    payloads.append(
        common_pb2.PayloadInfo(name="d/model.onnx", kind=common_pb2.PAYLOAD_KIND_MODEL, size=9)
    )
    variant = common_pb2.VariantInfo(
        ep="E", device="npu", compatibility="x", executor_info_json="{}", payloads=payloads
    )
    opened = payloads_pb2.OpenResponse(scope=_SCOPE, variant=variant, next_page_token=more)
    return pb.DaemonPacket(opened=opened)


def _pieces(order: tuple[int, ...] = (1, 0, 4, 2, 3)) -> Iterator[pb.DaemonPacket]:
    for number in order:
        at = number * _SLOT
        yield pb.DaemonPacket(piece=pb.Piece(slot=number, offset=at, size=min(_SLOT, SIZE - at)))


def _error() -> pb.DaemonPacket:
    detail = common_pb2.ErrorDetail(
        reason=common_pb2.ERROR_REASON_NOT_AUTHENTIC,
        message="no",
        request_id="0" * 16,
        retry_after_ms=5,
    )
    return pb.DaemonPacket(error=detail)


def seeds() -> list[bytes]:
    """Return what leads to every end that a request can have."""
    ring, write_ring = pb.Ring(slots=8, slot_size=_SLOT), pb.Ring(slots=8, slot_size=_SLOT)
    reading = pb.DaemonPacket(reading=pb.Reading(size=SIZE))
    done = pb.DaemonPacket(done=pb.Done(size=SIZE))
    began = pb.DaemonPacket(writing=pb.Writing(first_piece_size=1000, piece_size=_SLOT))
    freed = pb.DaemonPacket(free=pb.Free(slots=[0, 1, 2, 3]))
    written = pb.DaemonPacket(written=payloads_pb2.WriteResponse())
    whole = pb.DaemonPacket(reading=pb.Reading(size=SIZE, data=bytes(SIZE)))
    in_ring = pb.DaemonPacket(ring=ring)
    to_fill = pb.DaemonPacket(write_ring=write_ring)
    committed = pb.DaemonPacket(committed=payloads_pb2.CommitResponse(scope=_SCOPE))
    return [
        _input(_OPENS, _page("a", "b")),
        _input(_OPENS, _page("a", more="next"), _page("b" * 300)),
        _input(_OPENS, _page("d/b", "a\0b")),
        _input(_READS, in_ring, reading, *_pieces(), done),
        _input(_READS, in_ring, reading, *_pieces((0, 0, 1, 2, 3, 4)), done),
        _input(_READS, in_ring, reading, *_pieces(), _error()),
        _input(_READS, in_ring, reading, *_pieces(), done, memory=_OTHER),
        _input(_READS, whole),
        _input(_WRITES, to_fill, began, freed, written),
        _input(_WRITES, to_fill, began, written),
        _input(_COMMITS, committed),
        _input(_COMMITS, _error()),
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        folder.joinpath(f"seed-{number}").write_bytes(seed)
