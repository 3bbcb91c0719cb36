"""A daemon that lies to the C client: no packet makes it touch what isn't its own.

The program is built with the address and undefined-behaviour sanitizers: exit code 1 is an error
that it reported, anything else a defect.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from support.c_programs import call

from sealcar.transfer.descriptors import FIXED_SIZE, Seal, memory, seal, send_with_descriptor
from sealcar.v1 import common_pb2, payloads_pb2
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PIECE: Final = 1 << 20
PAGE: Final = 4096
SIZE: Final = 3 * PIECE
MUTATIONS: Final = 60
ASAN: Final = "exitcode=99:max_allocation_size_mb=64:allocator_may_return_null=1"
SCOPE: Final = common_pb2.Scope(
    package=common_pb2.PackageRef(name="m", version="1"), component="c", variant="v", generation=1
)


class Said(NamedTuple):
    """A packet of the daemon's, and the memory that goes with it."""

    data: bytes
    size: int = -1
    seals: Seal = FIXED_SIZE


def said(packet: pb.DaemonPacket, size: int = -1, seals: Seal = FIXED_SIZE) -> Said:
    return Said(packet.SerializeToString(), size, seals)


def piece(slot: int, offset: int, size: int = PIECE) -> Said:
    return said(pb.DaemonPacket(piece=pb.Piece(slot=slot, offset=offset, size=size)))


def done(size: int = SIZE) -> Said:
    return said(pb.DaemonPacket(done=pb.Done(size=size)))


def ring(slots: int, slot_size: int, size: int, seals: Seal = FIXED_SIZE) -> Said:
    return said(pb.DaemonPacket(ring=pb.Ring(slots=slots, slot_size=slot_size)), size, seals)


def write_ring(slots: int, slot_size: int) -> Said:
    packet = pb.DaemonPacket(write_ring=pb.Ring(slots=slots, slot_size=slot_size))
    return said(packet, slots * slot_size)


def writing(first: int, later: int) -> Said:
    return said(pb.DaemonPacket(writing=pb.Writing(first_piece_size=first, piece_size=later)))


def freed(*slots: int) -> Said:
    return said(pb.DaemonPacket(free=pb.Free(slots=slots)))


def opened(size: int = SIZE, name: str = "b") -> Said:
    info = common_pb2.PayloadInfo(
        name=name, kind=common_pb2.PAYLOAD_KIND_BLOB, size=size, identity=bytes(32)
    )
    variant = common_pb2.VariantInfo(executor_info_json="{}", payloads=[info])
    return said(pb.DaemonPacket(opened=payloads_pb2.OpenResponse(scope=SCOPE, variant=variant)))


ATTESTED: Final = said(pb.DaemonPacket(attested=pb.Attested(protocol=1, segments=True)))
RING: Final = ring(8, PIECE, 8 * PIECE)
READING: Final = said(pb.DaemonPacket(reading=pb.Reading(size=SIZE)))
BEGUN: Final = said(
    pb.DaemonPacket(begun=payloads_pb2.BeginResponse(transaction=b"t", scope=SCOPE))
)
SMALL: Final = said(pb.DaemonPacket(reading=pb.Reading(size=3, data=b"abc")))
HONEST: Final = (RING, READING, piece(1, PIECE), piece(0, 0), piece(2, 2 * PIECE), done())

# what comes after `attested` and `opened`; each must end in an error
LIES: Final[dict[str, Sequence[Said]]] = {
    "no ring": (READING, piece(0, 0)),
    "a ring that can shrink": (ring(8, PIECE, 8 * PIECE, Seal(0)), *HONEST[1:]),
    "a ring that can grow": (ring(8, PIECE, 8 * PIECE, Seal.SHRINK), *HONEST[1:]),
    "a ring smaller than announced": (ring(8, PIECE, PIECE), *HONEST[1:]),
    "a ring larger than announced": (ring(8, PIECE, 9 * PIECE), *HONEST[1:]),
    "a ring without slots": (ring(0, PIECE, PIECE), *HONEST[1:]),
    "a ring of more slots than are counted": (ring(65, PIECE, 65 * PIECE), *HONEST[1:]),
    "a ring whose size overflows": (ring(2**32 - 1, 2**32 - 1, PIECE), *HONEST[1:]),
    "a ring without memory": (Said(RING.data), *HONEST[1:]),
    "a slot outside the ring": (RING, READING, piece(8, 0)),
    "a slot far outside the ring": (RING, READING, piece(2**32 - 1, 0)),
    "more than a slot": (RING, READING, piece(0, 0, PIECE + 1)),
    "a piece beyond the payload": (RING, READING, piece(0, SIZE - 1)),
    "a piece whose end overflows": (RING, READING, piece(0, 2**64 - 1)),
    "an empty piece": (RING, READING, piece(0, 0, 0), *HONEST[2:]),
    "a piece twice": (RING, READING, piece(0, 0), piece(1, 0)),
    "pieces that overlap": (RING, READING, piece(0, 0), piece(1, PIECE - 1)),
    "more pieces apart than a ring has": (
        *(RING, READING),
        *(piece(0, 2 * number, 1) for number in range(100)),
        done(),
    ),
    "an early end": (RING, READING, piece(0, 0), done()),
    "an end that says another size": (*HONEST[:-1], done(PIECE)),
    "a payload of another size": (
        RING,
        said(pb.DaemonPacket(reading=pb.Reading(size=2**64 - 1))),
    ),
    "a small payload of another size": (SMALL,),
    "a descriptor out of turn": (RING, Said(READING.data, PIECE), *HONEST[2:]),
    "an answer to nothing": (said(pb.DaemonPacket(written=payloads_pb2.WriteResponse())),),
    "nothing known": (Said(b"\xfa\x7f\x00"),),
    "an error without a reason": (said(pb.DaemonPacket(error=common_pb2.ErrorDetail())),),
    "an error that steers a terminal": (
        said(
            pb.DaemonPacket(
                error=common_pb2.ErrorDetail(
                    reason=common_pb2.ERROR_REASON_NOT_AUTHENTIC, message="\x1b[31m\n\u202e" * 99
                )
            )
        ),
    ),
    "the end of the connection": (),
}
# what comes after `attested` on a connection that writes SIZE bytes, packet by packet
WRITES: Final[dict[str, Sequence[Sequence[Said]]]] = {
    "no ring": ((writing(PIECE, PIECE),),),
    "pieces larger than a slot": ((write_ring(1, 4096), writing(4096, PIECE)),),
    "pieces without bytes": ((write_ring(1, 4096), writing(4096, 0)),),
    "a slot outside the ring": ((write_ring(1, PIECE), writing(PIECE, PIECE)), (freed(1),)),
    "a slot far outside the ring": (
        (write_ring(1, PIECE), writing(PIECE, PIECE)),
        (freed(2**32 - 1),),
    ),
    "a smaller ring in mid-write": (
        (write_ring(1, PIECE), writing(PIECE, PIECE)),
        (write_ring(1, 4096), freed(0)),
    ),
    "a ring of more slots in mid-write": (
        (write_ring(1, PIECE), writing(PIECE, PIECE)),
        (write_ring(64, PIECE), freed(*range(64))),
    ),
}
OPENINGS: Final[dict[str, Said]] = {
    "a payload larger than every memory": opened(size=2**63),
    "nothing": said(pb.DaemonPacket(opened=payloads_pb2.OpenResponse())),
    "pages without end": said(
        pb.DaemonPacket(
            opened=payloads_pb2.OpenResponse(scope=SCOPE, next_page_token="more")  # noqa: S106  (of a page)
        )
    ),
}


class Liar:
    """A daemon that answers each packet as it was told, whatever was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script: list[Sequence[Said]] = []
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.bind(str(folder / "data.sock"))
        self._sock.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._sock.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._sock.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(peer,), daemon=True).start()

    def talk(self, peer: socket.socket) -> None:
        """Speak with one client to its end."""
        with peer, contextlib.suppress(OSError):
            peer.settimeout(5)
            for answers in self.script:
                if not _asked(peer):
                    return
                for one in answers:
                    _say(peer, one)
            # what isn't received when one end closes is an error to the other
            while answers and peer.recv(1 << 16):
                pass


class Lender(Liar):
    """An honest daemon, which fills only slots that are its own, the latest free one first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slots = self.pieces = 0
        self.all_back = threading.Event()

    def talk(self, peer: socket.socket) -> None:
        """Attest, open, and let the payload be read."""
        with peer, contextlib.suppress(ConnectionError):
            peer.settimeout(5)
            for answer in (ATTESTED, opened(self.pieces * PAGE)):
                _asked(peer)
                _say(peer, answer)
            _asked(peer)
            _say(peer, ring(self.slots, PAGE, self.slots * PAGE))
            _asked(peer)
            _say(peer, said(pb.DaemonPacket(reading=pb.Reading(size=self.pieces * PAGE))))
            self._lend(peer)

    def _lend(self, peer: socket.socket) -> None:
        free, lent = list(range(self.slots)), set[int]()
        for number in range(self.pieces):
            while not free:
                free += self._given_back(peer, lent)
            lent.add(slot := free.pop())
            _say(peer, piece(slot, number * PAGE, PAGE))
        _say(peer, done(self.pieces * PAGE))
        while lent:
            self._given_back(peer, lent)
        self.all_back.set()

    @staticmethod
    def _given_back(peer: socket.socket, lent: set[int]) -> Sequence[int]:
        slots = pb.ClientPacket.FromString(peer.recv(1 << 16)).free.slots
        for slot in slots:
            lent.remove(slot)
        assert slots
        return slots


def _asked(peer: socket.socket) -> bytes:
    """Return the next packet; a transaction begins, on its own connection, whatever is told."""
    while pb.ClientPacket.FromString(packet := peer.recv(1 << 16)).HasField("begin"):
        _say(peer, BEGUN)
    return packet


def _say(peer: socket.socket, one: Said) -> None:
    if one.size < 0:
        peer.send(one.data)
        return
    descriptor = memory("liar", one.size)
    try:
        os.fchmod(descriptor, 0o600)
        seal(descriptor, one.seals)
        send_with_descriptor(peer, one.data, descriptor, 0)
    finally:
        os.close(descriptor)


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Liar]:
    made = Liar(tmp_path)
    yield made
    made.close()


def told(
    liar: Liar, command: str, *script: Sequence[Said], more: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    liar.script = [(ATTESTED,), *script]
    return call(
        liar.folder,
        *(command, "m", "c", "v", "b", *more),
        sanitized=True,
        PATIENCE_MS="150",
        ASAN_OPTIONS=ASAN,
    )


def refused(answer: subprocess.CompletedProcess[bytes]) -> None:
    assert answer.returncode == 1, answer.stderr
    assert answer.stderr.rstrip(b"\n").decode("ascii").isprintable()
    assert answer.stdout == b""


def test_the_honest_script_is_read(liar: Liar) -> None:
    answer = told(liar, "read", (opened(),), HONEST)
    assert (answer.returncode, answer.stdout) == (0, bytes(SIZE))


def test_a_piece_that_many_others_overtook_is_waited_for(liar: Liar) -> None:
    size = SIZE // 192
    rest = [piece(at // size % 8, at, size) for at in range(size, SIZE, size)]
    script = (ring(8, size, 8 * size), READING, *rest, piece(0, 0, size), done())
    answer = told(liar, "read", (opened(),), script)
    assert (answer.returncode, answer.stdout) == (0, bytes(SIZE))


def test_a_runtime_that_refuses_the_version_it_claims_is_not_asked_for_its_functions(
    tmp_path: Path,
) -> None:
    answer = call(tmp_path, "status", "m", "c", "v", "b", sanitized=True, RUNTIME="1.31.0")
    refused(answer)
    assert b"ONNX Runtime" in answer.stderr


@pytest.mark.parametrize("pieces", [1, 7, 300])
@pytest.mark.parametrize("slots", [1, 2, 3, 8, 64])
def test_slots_are_given_back_before_the_daemon_has_none(
    slots: int, pieces: int, tmp_path: Path
) -> None:
    lender = Lender(tmp_path)
    lender.slots, lender.pieces = slots, pieces
    try:
        answer = told(lender, "read")
        assert (answer.returncode, answer.stdout) == (0, bytes(pieces * PAGE)), answer.stderr
        assert lender.all_back.wait(5)
    finally:
        lender.close()


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_a_read_is_an_error(lie: str, liar: Liar) -> None:
    refused(told(liar, "read", (opened(),), LIES[lie]))


@pytest.mark.parametrize("cut", [0, 1])
def test_a_small_payload_that_the_packet_does_not_hold_is_an_error(cut: int, liar: Liar) -> None:
    answer = told(
        liar, "read", (opened(len(b"abc")),), (Said(SMALL.data[: len(SMALL.data) - cut]),)
    )
    if cut:
        refused(answer)
    else:
        assert (answer.returncode, answer.stdout) == (0, b"abc")


@pytest.mark.parametrize("lie", WRITES)
def test_a_lie_about_a_write_is_an_error(lie: str, liar: Liar, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(SIZE))
    answer = told(liar, "write", *WRITES[lie], more=(str(tmp_path / "f"),))
    refused(answer)
    # at once, and not because nothing else came
    assert b"the daemon answered out of turn" in answer.stderr


def test_a_name_that_no_text_of_c_can_hold_is_no_shorter_name(liar: Liar) -> None:
    answer = told(liar, "list", (opened(name="b\0c"),))
    refused(answer)
    assert b"list of payloads can't be kept" in answer.stderr


@pytest.mark.parametrize("lie", OPENINGS)
def test_a_lie_about_a_variant_is_an_error_or_nothing(lie: str, liar: Liar) -> None:
    answer = told(liar, "status", *((OPENINGS[lie],) for _ in range(8)))
    assert answer.returncode in (0, 1), answer.stderr
    assert not answer.stdout.startswith(b"0 ")


@pytest.mark.parametrize("at", ["attested", "opened", "read"])
def test_mutated_answers_never_break_memory(at: str, liar: Liar) -> None:
    chance = random.Random(at)  # noqa: S311  (a test that can be repeated)
    for _ in range(MUTATIONS // 3):
        steps: list[list[Said]] = [[ATTESTED], [opened()], [*HONEST]]
        step = ("attested", "opened", "read").index(at)
        which = chance.randrange(len(steps[step]))
        one = steps[step][which]
        steps[step][which] = Said(chance.choice(CHANGES)(one.data, chance), one.size, one.seals)
        liar.script = steps  # type: ignore[assignment]  # lists are sequences
        answer = call(
            liar.folder,
            "read",
            "m",
            "c",
            "v",
            "b",
            sanitized=True,
            PATIENCE_MS="60",
            ASAN_OPTIONS=ASAN,
        )
        assert answer.returncode in (0, 1), (steps[step][which], answer.stderr)
        assert answer.returncode or answer.stdout in (bytes(SIZE), b"")


def _flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data))]


def _grown(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randrange(1, 40)) + data[at:]


def _noise(data: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(len(data))


CHANGES: Final[Sequence[Callable[[bytes, random.Random], bytes]]] = (_flipped, _cut, _grown, _noise)
