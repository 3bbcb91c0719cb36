"""Payloads whose size and offsets need more than 32 bits."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from support.daemon import Daemon
from support.grpcdoor import grpc_door, import_steps
from support.grpcdoor import scope as scope_message
from support.onnx_bytes import TINY

from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB: Final = 1 << 20
SIZE: Final = (4 << 30) + 3 * MIB + 5
BLOCK: Final = hashlib.shake_256(b"block").digest(MIB - 8)


def blocks() -> Iterator[bytes]:
    """Yield the payload in pieces of a MiB that all differ."""
    for at in range(0, SIZE, MIB):
        yield (at.to_bytes(8, "big") + BLOCK)[: SIZE - at]


def test_a_payload_over_4_gib_is_the_same_whole_and_beyond_every_32_bit_offset(
    tmp_path: Path,
) -> None:
    with Daemon(tmp_path) as daemon, daemon.connect() as client:
        with grpc_door(daemon) as door:
            list(door.packages.Import(import_steps("large", {"model.onnx": b"m"})))
        with client.begin("large", "c", "w") as transaction:
            transaction.write("model.onnx", TINY, "model")
            with transaction.writer("weights", "initializers") as writer:
                for block in blocks():
                    writer.write(block)
                assert writer.finish().size == SIZE
            scope = transaction.commit()
        with scope.map("weights") as mapped:
            for at, block in zip(range(0, SIZE, MIB), blocks(), strict=True):
                assert mapped.view[at : at + MIB] == block
        with grpc_door(daemon) as door:
            for offset in ((2 << 30) - 5, (4 << 30) - 5, (4 << 30) + 2 * MIB, SIZE - 10):
                asked = payloads_pb2.ReadRequest(
                    scope=scope_message("large", variant="w"),
                    name="weights",
                    offset=offset,
                    length=10,
                )
                data = b"".join(step.data for step in door.payloads.Read(asked))
                expected = b"".join(
                    at.to_bytes(8, "big") + BLOCK
                    for at in (offset // MIB * MIB, (offset // MIB + 1) * MIB)
                )
                assert data == expected[offset % MIB : offset % MIB + 10]
