from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.daemon import Daemon
from support.onnx_bytes import TINY
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

from sealcar import BorrowedBuffer, errors
from sealcar.transfer.descriptors import Exported
from sealcar_server.sealing.layout import FIRST_PIECE, PIECE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import Client

SIZES = (0, 1, FIRST_PIECE - 1, FIRST_PIECE, FIRST_PIECE + 1, FIRST_PIECE + PIECE, 20 << 20)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon:
        with daemon.connect() as client:
            publish(client, {"x": b"x"})
        yield daemon


def test_what_was_written_is_read_back_byte_for_byte(client: Client) -> None:
    payloads = {f"blob-{size}": varied(size) for size in SIZES}
    with client.begin(PACKAGE, COMPONENT, "sizes") as transaction:
        transaction.write("model.onnx", TINY, "model")
        for name, data in payloads.items():
            reference = transaction.write(name, data, "blob")
            assert (reference.name, reference.size, reference.kind) == (name, len(data), "blob")
            assert reference.sealed
        assert transaction.names == ("model.onnx", *payloads)
        scope = transaction.commit(
            ep="QNNExecutionProvider",
            device="npu",
            compatibility="soc 60",
            executor_info={"ort": {"model_file": "model.onnx"}},
        )
    assert {name: scope.read(name) for name in payloads} == payloads
    assert (scope.ep, scope.device) == ("QNNExecutionProvider", "npu")
    assert scope.compatibility == "soc 60"
    assert scope.executor_info["ort"] == {"model_file": "model.onnx"}
    assert client.scope(PACKAGE, COMPONENT, VARIANT).read("x") == b"x", (
        "the other one is still there"
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [1 << 20, 700_001])
def test_a_writer_takes_pieces_of_any_size(client: Client, size: int, step: int) -> None:
    data = varied(size)
    with client.begin(PACKAGE, COMPONENT, "streamed") as transaction:
        transaction.write("model.onnx", TINY, "model")
        with transaction.writer("weights", "initializers") as writer:
            for at in range(0, size, step):
                writer.write(data[at : at + step])
            assert writer.finish().size == size
        scope = transaction.commit()
    assert scope.read("weights") == data


def test_borrowed_bytes_are_written_and_never_after_the_loan(client: Client) -> None:
    data = varied(3 << 20)
    with client.begin(PACKAGE, COMPONENT, "lent") as transaction, Exported(data) as exported:
        lent = BorrowedBuffer(exported.address, exported.size, data)
        with lent:
            transaction.write("weights", lent, "initializers")
        transaction.write("model.onnx", TINY, "model")
        with pytest.raises(errors.WrongStateError, match="returned"):
            transaction.write("again", lent, "blob")
        scope = transaction.commit()
    assert scope.read("weights") == data


def test_several_threads_write_into_one_transaction(client: Client) -> None:
    payloads = {f"blob-{number}": varied(3_000_000 + number) for number in range(12)}
    failed: list[Exception] = []
    with client.begin(PACKAGE, COMPONENT, "threads") as transaction:

        def write(name: str) -> None:
            try:
                transaction.write(name, payloads[name], "blob")
            except errors.SealcarError as error:
                failed.append(error)

        threads = [threading.Thread(target=write, args=[name]) for name in payloads]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        transaction.write("model.onnx", TINY, "model")
        scope = transaction.commit()
    assert not failed
    assert {name: scope.read(name) for name in payloads} == payloads


def test_writers_of_one_transaction_may_be_open_at_the_same_time(client: Client) -> None:
    with client.begin(PACKAGE, COMPONENT, "nested") as transaction:
        with transaction.writer("model.onnx", "model") as model:
            model.write(TINY[:2])
            transaction.write("blob", b"in between", "blob")
            model.write(TINY[2:])
            model.finish()
        scope = transaction.commit()
    assert scope.read("model.onnx") == TINY


def test_a_name_is_written_once(client: Client) -> None:
    with client.begin(PACKAGE, COMPONENT, "twice") as transaction:
        transaction.write("blob", b"1", "blob")
        with pytest.raises(errors.AlreadyExistsError) as caught:
            transaction.write("blob", b"2", "blob")
    assert caught.value.place.payload == "blob"
    assert caught.value.place.variant == "twice"


def test_leaving_without_commit_leaves_nothing(daemon: Daemon, client: Client) -> None:
    with client.begin(PACKAGE, COMPONENT, "left") as transaction:
        transaction.write("model.onnx", varied(2 << 20), "model")
        assert any("left" in path.parts for path in daemon.store.rglob("*"))
    assert not any("left" in path.parts for path in daemon.store.rglob("*"))
    with pytest.raises(errors.NotFoundError):
        client.scope(PACKAGE, COMPONENT, "left").open()
    with pytest.raises(errors.WrongStateError, match="ended"):
        transaction.commit()
    with pytest.raises(errors.WrongStateError, match="ended"):
        transaction.write("more", b"", "blob")
    transaction.abort()


def test_a_payload_that_was_not_finished_is_not_published(client: Client) -> None:
    with client.begin(PACKAGE, COMPONENT, "unfinished") as transaction:
        transaction.write("model.onnx", TINY, "model")
        with transaction.writer("blob", "blob") as writer:
            writer.write(varied(5 << 20))
        with pytest.raises(errors.WrongStateError, match="finished or closed"):
            writer.finish()
        transaction.write("blob", b"again", "blob")
        with transaction.writer("other", "blob") as writer:
            writer.write(varied(5 << 20))
        scope = transaction.commit()
    assert [each.name for each in scope.payloads] == ["model.onnx", "blob"]
    assert scope.read("blob") == b"again"


@pytest.mark.parametrize("name", ["a/b", "../x", "", "a b", "manifest.json", ".x", "x" * 300])
def test_a_blob_of_a_name_against_the_rules_is_refused(client: Client, name: str) -> None:
    with (
        client.begin(PACKAGE, COMPONENT, "names") as transaction,
        pytest.raises(errors.InvalidNameError),
    ):
        transaction.write(name, b"x", "blob")


def test_an_unknown_kind_is_refused_with_the_known_ones(client: Client) -> None:
    with (
        client.begin(PACKAGE, COMPONENT, "kinds") as transaction,
        pytest.raises(errors.InvalidRequestError, match="initializers"),
    ):
        transaction.write("x", b"x", "weights")


def test_executor_info_must_be_json(client: Client) -> None:
    with client.begin(PACKAGE, COMPONENT, "json") as transaction:
        transaction.write("model.onnx", TINY, "model")
        with pytest.raises(errors.InvalidRequestError, match="JSON"):
            transaction.commit(executor_info={"ort": {"x": float("nan")}})
        with pytest.raises(errors.InvalidRequestError, match="JSON"):
            transaction.commit(executor_info={"ort": object()})
        with pytest.raises(errors.InvalidRequestError):
            transaction.commit(executor_info={"ort": {"x": "\ud800"}})


def test_what_no_message_holds_is_not_committed(client: Client) -> None:
    with client.begin(PACKAGE, COMPONENT, "new") as transaction:
        transaction.write("x", b"x", "other")
        with pytest.raises(errors.InvalidRequestError):
            transaction.commit(ep="\udcff")


def test_a_component_that_is_not_there_can_not_be_written_to(client: Client) -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        client.begin(PACKAGE, "none", "v")
    assert caught.value.place.component == "none"
