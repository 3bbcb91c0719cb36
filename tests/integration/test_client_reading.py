from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon, environment
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.raw_clients import until

from sealcar import errors
from sealcar.transfer.descriptors import Exported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import Client, Scope

PAYLOADS = {
    "empty": b"",
    "one": b"1",
    "small": varied(64_000),
    "over": varied(64_001),
    "big": varied(20 << 20),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, PAYLOADS)
            for number in range(3):
                publish(client, {"x": b"x"}, f"other-{number}")
        yield daemon


@pytest.fixture
def scope(client: Client) -> Scope:
    return client.scope(PACKAGE, COMPONENT, VARIANT)


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_form_holds_the_very_bytes(scope: Scope, name: str) -> None:
    expected = PAYLOADS[name]
    assert scope.read(name) == expected
    with scope.map(name) as payload:
        assert bytes(payload.view) == expected
        assert payload.identity == scope.payload(name).identity
    buffer = bytearray(len(expected))
    with scope.reader(name) as reader:
        assert reader.size == len(expected)
        reader.read_into(buffer)
    assert buffer == expected
    for shared in (False, True) if expected else ():
        named = scope.named(name, shared=shared)
        assert named
        with named:
            assert Path(named.path).read_bytes() == expected


def test_an_address_is_filled_and_nothing_beside_it(scope: Scope) -> None:
    expected = PAYLOADS["big"]
    buffer = bytearray(b"\xee") * (len(expected) + 128)
    with Exported(buffer, writable=True) as exported, scope.reader("big") as reader:
        reader.read_into(exported.address + 64, reader.size)
    assert buffer == b"\xee" * 64 + expected + b"\xee" * 64


def test_a_mapped_payload_can_not_be_written_to_even_from_c(scope: Scope) -> None:
    with scope.map("over") as payload:
        assert payload.view.readonly
        page = payload.address // mmap.PAGESIZE * mmap.PAGESIZE
        maps = Path("/proc/self/maps").read_text().splitlines()
        mine = next(line for line in maps if int(line.split("-")[0], 16) == page)
        assert mine.split()[1] == "r--p"


def test_a_scope_says_what_it_is(scope: Scope) -> None:
    assert (scope.package, scope.component, scope.variant) == (PACKAGE, COMPONENT, VARIANT)
    assert (scope.version, scope.generation) == ("1", 1)
    assert [each.name for each in scope.payloads] == ["model.onnx", *PAYLOADS]
    assert scope.payload("big").size == len(PAYLOADS["big"])
    assert scope.payload("model.onnx").kind == "model"
    assert scope.payload("big").sealed


def test_component_and_variant_may_be_left_out_where_there_is_one(client: Client) -> None:
    scope = client.scope(PACKAGE)
    assert (scope.component, scope.variant) == (COMPONENT, VARIANT)
    assert scope.read("one") == b"1"


def test_a_name_that_matches_nothing_is_refused_with_what_there_is(client: Client) -> None:
    with pytest.raises(errors.NotFoundError, match=f"no variant 'other'/.*there is: {COMPONENT}/"):
        client.scope(PACKAGE, "other").open()


@pytest.mark.parametrize(
    ("package", "component", "variant"),
    [("none", "c", "v"), (PACKAGE, "none", "v"), (PACKAGE, "c", "none")],
)
def test_what_is_not_there_is_not_found_and_says_where(
    client: Client, package: str, component: str, variant: str
) -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        client.scope(package, component, variant).read("x")
    place = caught.value.place
    assert (place.package, place.component, place.variant) == (package, component, variant)
    assert place.phase == "open"


def test_a_payload_that_is_not_there_is_named_in_the_error(scope: Scope) -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        scope.read("none")
    assert caught.value.place.payload == "none"
    assert caught.value.place.generation == 1


@pytest.mark.parametrize(
    "name", ["..", "a/../b", "/etc/passwd", "a\0b", "x" * 5000, "manifest.json", ".hidden", ""]
)
def test_a_name_against_the_rules_is_refused(scope: Scope, name: str) -> None:
    with pytest.raises(errors.InvalidNameError):
        scope.read(name)


def test_a_name_that_is_no_text_is_refused(scope: Scope) -> None:
    with pytest.raises(errors.RequestError):
        scope.read("\udc80")


def test_a_target_of_another_size_is_refused_and_the_reader_still_works(scope: Scope) -> None:
    with scope.reader("over") as reader:
        for wrong in (bytearray(reader.size - 1), bytearray(reader.size + 1)):
            with pytest.raises(errors.InvalidRequestError, match="bytes"):
                reader.read_into(wrong)
        with pytest.raises(errors.InvalidRequestError, match="null"):
            reader.read_into(0, reader.size)
        with pytest.raises(errors.InvalidRequestError, match="buffer"):
            reader.read_into(bytes(reader.size))
        right = bytearray(reader.size)
        reader.read_into(right)
        assert right == PAYLOADS["over"]
        with pytest.raises(errors.WrongStateError, match="has been read"):
            reader.read_into(right)
    with pytest.raises(errors.WrongStateError, match="closed"):
        reader.read_into(right)


def test_a_reader_that_is_left_early_costs_nothing_but_its_connection(
    daemon: Daemon, scope: Scope
) -> None:
    for _ in range(20):
        with scope.reader("big"):
            pass
    assert scope.read("big") == PAYLOADS["big"]
    with daemon.connect() as other:
        until(lambda: other.state().transfers == 0)


def test_many_threads_read_at_once_over_a_few_connections(client: Client, scope: Scope) -> None:
    wrong: list[str] = []

    def read() -> None:
        wrong.extend(name for name in PAYLOADS if scope.read(name) != PAYLOADS[name])

    threads = [threading.Thread(target=read) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert client.state().memory <= client.state().memory_limit


def test_whoever_gets_no_connection_in_time_is_told_so(daemon: Daemon) -> None:
    with daemon.connect(timeout=1.0) as client:
        scope = client.scope(PACKAGE, COMPONENT, VARIANT)
        readers = [scope.reader("small") for _ in range(8)]
        with pytest.raises(errors.TimedOutError, match="8 connections"):
            scope.read("one")
        for reader in readers:
            reader.close()
        assert scope.read("one") == b"1"


def test_a_closed_client_refuses(client: Client, scope: Scope) -> None:
    reader = scope.reader("big")
    client.close()
    buffer = bytearray(reader.size)
    reader.read_into(buffer)
    reader.close()
    assert buffer == PAYLOADS["big"], "what was under way came to its end"
    with pytest.raises(errors.WrongStateError, match="closed"):
        scope.read("one")
    with pytest.raises(errors.WrongStateError, match="closed"):
        _ = client.catalogue


def test_a_failed_read_leaves_no_byte_in_the_destination(daemon: Daemon, client: Client) -> None:
    publish(client, {"big": PAYLOADS["big"]}, "damaged")
    sealed = next(path for path in daemon.store.rglob("big") if "damaged" in path.parts)
    with sealed.open("r+b") as file:
        file.seek(10 << 20)
        file.write(b"damage")
    scope = client.scope("damaged", COMPONENT, VARIANT)
    buffer = bytearray(b"\xee") * len(PAYLOADS["big"])
    with scope.reader("big") as reader, pytest.raises(errors.NotAuthenticError) as caught:
        reader.read_into(buffer)
    assert not any(buffer)
    place = caught.value.place
    assert (place.package, place.payload) == ("damaged", "big")
    assert place.offset is not None
    assert place.offset // (1 << 20) in (9, 10)
    assert client.scope(PACKAGE, COMPONENT, VARIANT).read("one") == b"1"


def test_reading_moves_bytes_with_the_interpreter_free(scope: Scope) -> None:
    count = 0
    over = threading.Event()

    def tick() -> None:
        nonlocal count
        while not over.wait(0.001):
            count += 1

    thread = threading.Thread(target=tick)
    thread.start()
    memory = ctypes.create_string_buffer(len(PAYLOADS["big"]))
    for _ in range(10):
        with scope.reader("big") as reader:
            reader.read_into(memory)
    over.set()
    thread.join()
    assert count > 5


def test_a_client_that_reads_loads_neither_grpc_nor_a_cipher(daemon: Daemon) -> None:
    program = (
        "import sys, sealcar\n"
        "client = sealcar.connect(sys.argv[1])\n"
        f"assert client.scope({PACKAGE!r}, {COMPONENT!r}, {VARIANT!r}).read('one') == b'1'\n"
        "print(sorted({'grpc', 'cryptography', 'numpy', 'onnxruntime'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(daemon.socket)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
