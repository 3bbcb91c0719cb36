"""Every manipulation of a stream, on payloads in the store of a daemon that serves them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
import pytest
from support.caller import error_of
from support.daemon import Daemon
from support.grpcdoor import grpc_door
from support.grpcdoor import scope as scope_message
from support.opened_stores import generation_of, payload_key
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.tinkstreams import tink_unseal
from support.two_faced import two_faced

from sealcar.errors import DamagedError, NotAuthenticError, TruncatedError
from sealcar.v1 import payloads_pb2
from sealcar_server.sealing.layout import FIRST_PIECE, HEADER, PIECE, SEGMENT, TAG
from sealcar_server.sealing.stream import StreamCipher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.sealing.derivation import PayloadKey

OTHER: Final = "other"
SHORT: Final = 8 * 16
SIZES: Final = {
    "ragged": FIRST_PIECE + 2 * PIECE + 100,
    "twin": FIRST_PIECE + 2 * PIECE + 100,
    "exact": FIRST_PIECE + PIECE,
    "single": FIRST_PIECE,
    "short": SHORT,
}


@dataclass(frozen=True)
class Store:
    """A daemon, and the files of its payloads as they were sealed."""

    daemon: Daemon
    plain: dict[str, bytes]
    sealed: dict[str, bytes]
    foreign: dict[str, bytes]

    def file(self, name: str) -> Path:
        return generation_of(self.daemon) / COMPONENT / VARIANT / name

    def key(self, name: str) -> PayloadKey:
        return payload_key(self.daemon, name)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    plain = {name: varied(size) for name, size in SIZES.items()}
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, plain)
            publish(client, plain, OTHER)
        folder = generation_of(daemon) / COMPONENT / VARIANT
        sealed = {name: (folder / name).read_bytes() for name in plain}
        other = generation_of(daemon, OTHER) / COMPONENT / VARIANT
        yield Store(daemon, plain, sealed, {name: (other / name).read_bytes() for name in plain})


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def segment(data: bytes, index: int) -> bytes:
    return data[index * SEGMENT : (index + 1) * SEGMENT]


# what "ragged" is replaced by; it has four segments
CHANGES: Final[dict[str, Callable[[Store, bytes], bytes]]] = {
    "associated data of another payload": lambda store, _: store.sealed["twin"],
    "key of another package": lambda store, _: store.foreign["ragged"],
    "another header size": lambda _, data: flipped(data, 0),
    "one bit of the salt": lambda _, data: flipped(data, 5),
    "one bit of the nonce prefix": lambda _, data: flipped(data, 35),
    "one bit of the first segment": lambda _, data: flipped(data, HEADER),
    "one bit of a tag": lambda _, data: flipped(data, 2 * SEGMENT - 1),
    "one bit of the last tag": lambda _, data: flipped(data, -1),
    "two segments swapped": lambda _, data: (
        segment(data, 0) + segment(data, 2) + segment(data, 1) + data[3 * SEGMENT :]
    ),
    "a segment of another stream": lambda store, data: (
        segment(data, 0) + segment(store.sealed["twin"], 1) + data[2 * SEGMENT :]
    ),
    "the header of another stream": lambda store, data: (
        store.sealed["twin"][:HEADER] + data[HEADER:]
    ),
    "a segment twice": lambda _, data: (
        segment(data, 0) + segment(data, 1) + segment(data, 1) + data[3 * SEGMENT :]
    ),
    "a segment removed": lambda _, data: segment(data, 0) + data[2 * SEGMENT :],
    "cut after a segment": lambda _, data: data[: 3 * SEGMENT],
    "cut in the last segment": lambda _, data: data[:-50],
    "cut in the header": lambda _, data: data[: HEADER - 1],
    "nothing left": lambda _store, _data: b"",
    "one byte appended": lambda _, data: data + b"x",
    "a segment appended": lambda _, data: data + segment(data, 1),
    "zeros": lambda _, data: bytes(len(data)),
    "the plaintext": lambda store, _: store.plain["ragged"],
    "the plaintext in as many bytes": lambda store, data: store.plain["ragged"].ljust(len(data)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_manipulated_stream_is_refused_at_both_doors_and_by_the_check(
    store: Store, change: str
) -> None:
    refused(store, "ragged", CHANGES[change](store, store.sealed["ragged"]))


def test_bytes_after_a_full_last_segment_are_refused_which_tink_takes(store: Store) -> None:
    sealed = store.sealed["exact"] + os.urandom(1000)
    assert tink_unseal(store.key("exact"), sealed) == store.plain["exact"]
    refused(store, "exact", sealed)


def test_an_empty_last_segment_is_refused_which_tink_takes(store: Store) -> None:
    key, plain = store.key("single"), store.plain["single"]
    header = store.sealed["single"][:HEADER]
    made = bytearray(SEGMENT + TAG)
    made[:HEADER] = header
    cipher, view = StreamCipher(key, header), memoryview(made)
    cipher.seal(0, memoryview(plain), view[HEADER:SEGMENT], last=False)
    cipher.seal(1, memoryview(b""), view[SEGMENT:], last=True)
    assert tink_unseal(key, bytes(made)) == plain
    refused(store, "single", bytes(made))


def test_a_stream_that_opens_under_two_keys_is_refused_under_both(store: Store) -> None:
    ours, theirs = (payload_key(store.daemon, "short", package) for package in (PACKAGE, OTHER))
    sealed = two_faced(ours, theirs, SHORT // 16)
    faces = [tink_unseal(key, sealed) for key in (ours, theirs)]
    assert [len(face) for face in faces] == [SHORT, SHORT]
    assert faces[0] != faces[1]
    for package in (PACKAGE, OTHER):
        refused(store, "short", sealed, package)


def test_a_stream_that_somebody_else_sealed_under_the_right_key_is_refused(store: Store) -> None:
    key, header = store.key("short"), bytes([HEADER]) + os.urandom(HEADER - 1)
    made = bytearray(HEADER + SHORT + TAG)
    made[:HEADER] = header
    plain = memoryview(b"backdoored".ljust(SHORT))
    StreamCipher(key, header).seal(0, plain, memoryview(made)[HEADER:], last=True)
    assert tink_unseal(key, bytes(made)) == plain
    refused(store, "short", bytes(made))


def refused(store: Store, name: str, sealed: bytes, package: str = PACKAGE) -> None:
    """Put this in a payload's place: nobody gets the payload, and once it is back all do."""
    daemon = store.daemon
    file = generation_of(daemon, package) / COMPONENT / VARIANT / name
    before = file.read_bytes()
    assert sealed != before
    file.write_bytes(sealed)
    try:
        with daemon.connect() as client:
            target = bytearray(len(store.plain[name]))
            scope = client.scope(package, COMPONENT, VARIANT)
            with pytest.raises(DamagedError) as caught, scope.reader(name) as reader:
                reader.read_into(target)
            assert not any(target)
            with pytest.raises(type(caught.value)):
                client.catalogue.verify(package)
        assert isinstance(caught.value, NotAuthenticError | TruncatedError)
        assert (caught.value.place.package, caught.value.place.payload) == (package, name)
        assert type(_by_grpc(daemon, package, name, store.plain[name])) is type(caught.value)
    finally:
        file.write_bytes(before)
    with daemon.connect() as client:
        assert client.scope(package, COMPONENT, VARIANT).read(name) == store.plain[name]


def _by_grpc(daemon: Daemon, package: str, name: str, plain: bytes) -> Exception:
    """Return why a stream ended; what came before is the true beginning of the payload."""
    request = payloads_pb2.ReadRequest(scope=scope_message(package), name=name)
    received = b""
    with grpc_door(daemon) as door:
        steps = door.payloads.Read(request)
        with pytest.raises(grpc.RpcError) as caught:  # noqa: PT012  (pieces come before it)
            for step in steps:
                received += step.data
    assert len(received) < len(plain)
    assert plain.startswith(received)
    return error_of(caught.value)
