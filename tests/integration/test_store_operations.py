"""Versions become current, are removed and pruned on a daemon that serves them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import COMMAND, Daemon, environment, run_command
from support.onnx_bytes import TINY, model_around
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage, varied

from sealcar.errors import DeniedError, NotFoundError, SealcarError, WrongStateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.client import Client

BIG = model_around(varied(32 << 20))
RIGHTS = ("list", "read", "write", "import", "verify", "export")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d")) as running:
        yield running


def put(client: Client, name: str, version: str = "1", data: bytes = TINY) -> None:
    payload = PlannedBytes("model.onnx", "model", data)
    client.catalogue.import_(PlannedPackage((payload,), name=name, version=version))


def compile_variant(client: Client, name: str, variant: str, ep: str = "") -> None:
    with client.begin(name, COMPONENT, variant) as transaction:
        transaction.write("model.onnx", model_around(variant.encode()), "model")
        transaction.commit(ep=ep)


def run(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run_command(*arguments, "--socket", str(daemon.socket), "--json")
    assert done.returncode == code, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def said(daemon: Daemon, *arguments: str) -> str:
    done = run_command(*arguments, "--socket", str(daemon.socket))
    assert done.returncode == 0, done.stderr
    return done.stdout


def kind(answer: dict[str, Any]) -> str:
    found: str = answer["error"]["kind"]
    return found


def test_of_two_versions_one_is_current_and_the_command_says_which_one_was(
    daemon: Daemon, client: Client
) -> None:
    for version in ("1", "2"):
        put(client, "two", version, model_around(version.encode()))
    scope = client.scope("two", COMPONENT, VARIANT)
    assert scope.read("model.onnx") == model_around(b"2")
    assert run(daemon, "use", "two@1")["previous_version"] == "2"
    assert client.scope("two", COMPONENT, VARIANT).read("model.onnx") == model_around(b"1")
    assert scope.read("model.onnx") == model_around(b"2"), "what was opened stays what it is"
    listed = list(client.catalogue.list("two"))
    assert [(each.version, each.current) for each in listed] == [("1", True), ("2", False)]
    assert [each.version for each in client.catalogue.list("two", current=True)] == ["1"]
    assert "before it was 1" in said(daemon, "use", "two@2")


def test_a_list_is_narrowed_to_current_versions_components_and_providers(
    daemon: Daemon, client: Client
) -> None:
    for version in ("1", "2"):
        put(client, "narrow-a", version)
    put(client, "narrow-b")
    compile_variant(client, "narrow-a", "qnn", "QNNExecutionProvider")

    def found(**only: Any) -> list[tuple[str, str]]:  # noqa: ANN401  (the method's own)
        return [(each.name, each.version) for each in client.catalogue.list("narrow-", **only)]

    qnn = "QNNExecutionProvider"
    assert found() == [("narrow-a", "1"), ("narrow-a", "2"), ("narrow-b", "1")]
    assert found(current=True) == [("narrow-a", "2"), ("narrow-b", "1")]
    assert found(ep=qnn) == [("narrow-a", "2")]
    assert found(component=COMPONENT, current=True) == [("narrow-a", "2"), ("narrow-b", "1")]
    assert found(component="other") == []
    assert found(component="other", ep=qnn) == []
    options = ("--current", "--component", COMPONENT, "--ep", qnn)
    assert [each["version"] for each in run(daemon, "ls", "narrow-", *options)["packages"]] == ["2"]


def test_nothing_is_removed_without_a_yes(daemon: Daemon, client: Client) -> None:
    put(client, "kept")
    assert kind(run(daemon, "rm", "kept@1", code=1)) == "WrongStateError"
    assert answered(daemon, "n\n", "rm", "kept@1") == 1
    assert [each.name for each in client.catalogue.list("kept")] == ["kept"]
    assert answered(daemon, "y\n", "rm", "kept@1") == 0
    assert list(client.catalogue.list("kept")) == []


def answered(daemon: Daemon, answer: str, *arguments: str) -> int:
    """Run a command whose standard input is a terminal; return its exit code."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--socket", str(daemon.socket)],
            env=environment(),
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.write(ours, answer.encode())
        output, _ = process.communicate(timeout=60)
        assert b"[y/N]" in output
        return process.returncode
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_current_version_goes_last(daemon: Daemon, client: Client) -> None:
    for version in ("1", "2"):
        put(client, "order", version)
    assert kind(run(daemon, "rm", "order@2", "--yes", code=1)) == "WrongStateError"
    run(daemon, "use", "order@1")
    assert run(daemon, "rm", "order@2", "--yes")["generations"] == [1]
    assert run(daemon, "rm", "order@1", "--yes")["generations"] == [1]
    assert kind(run(daemon, "rm", "order@1", "--yes", code=1)) == "NotFoundError"
    assert not any((daemon.store / "order").glob("*/g"))


def test_what_is_read_and_written_meanwhile_ends_typed(daemon: Daemon, client: Client) -> None:
    put(client, "busy", data=BIG)
    put(client, "other", data=BIG)
    ended: dict[str, SealcarError] = {}
    reading = threading.Barrier(3)
    stop = threading.Event()

    def keep_reading(name: str) -> None:
        with daemon.connect() as own:
            scope = own.scope(name, COMPONENT, VARIANT)
            scope.read("model.onnx")
            reading.wait(30)
            while not stop.is_set():
                try:
                    scope.read("model.onnx")
                except SealcarError as error:
                    ended[name] = error
                    return

    threads = [threading.Thread(target=keep_reading, args=(name,)) for name in ("busy", "other")]
    with client.begin("busy", COMPONENT, "new") as transaction:
        transaction.write("model.onnx", TINY, "model")
        for thread in threads:
            thread.start()
        reading.wait(30)
        client.catalogue.remove("busy", "1")
        threads[0].join(30)
        stop.set()
        threads[1].join(30)
        with pytest.raises(WrongStateError):
            transaction.commit()
    assert {name: type(error) for name, error in ended.items()} == {"busy": NotFoundError}
    assert not any((daemon.store / ".staging").iterdir())


def test_its_numbers_go_on_over_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path) as own:
        with own.connect() as client:
            put(client, "again")
            compile_variant(client, "again", "qnn")
            client.catalogue.remove("again", "1")
        own.stop()
        own.start()
        with own.connect() as client:
            payload = PlannedBytes("model.onnx", "model", TINY)
            made = client.catalogue.import_(PlannedPackage((payload,), name="again"))
            assert made.generation == 3
            assert client.catalogue.verify("again").generation == 3


def test_older_generations_are_pruned_and_the_bytes_are_told(
    daemon: Daemon, client: Client
) -> None:
    put(client, "grown")
    for variant in ("a", "b", "c"):
        compile_variant(client, "grown", variant)
    would = run(daemon, "prune", "grown@1", "--dry-run")
    assert [each["generation"] for each in would["generations"]] == [2, 1]
    assert would["freed"] > 0
    before = disk(daemon.store)
    did = run(daemon, "prune", "grown@1")
    assert (did["generations"], did["freed"]) == (would["generations"], would["freed"])
    assert before - disk(daemon.store) == did["freed"]
    assert client.catalogue.get("grown").generations == (4, 3)
    with pytest.raises(NotFoundError):
        client.catalogue.get("grown", "1", 1)
    assert "0 generations; freed" in said(daemon, "prune", "grown")


def disk(store: Path) -> int:
    found = [each.stat() for each in store.rglob("*") if each.is_file()]
    return sum({(one.st_dev, one.st_ino): one.st_blocks * 512 for one in found}.values())


def test_what_a_client_opened_lately_is_not_pruned(client: Client) -> None:
    put(client, "opened")
    scope = client.scope("opened", COMPONENT, VARIANT)
    assert scope.read("model.onnx") == TINY
    for variant in ("a", "b", "c"):
        compile_variant(client, "opened", variant)
    pruned = client.catalogue.prune("opened", keep=1)
    assert [each.generation for each in pruned.generations] == [3, 2]
    assert scope.read("model.onnx") == TINY
    assert client.catalogue.remove("opened", "1", 1) == (1,)
    with pytest.raises(NotFoundError):
        scope.read("model.onnx")


def test_whoever_lacks_the_right_is_told_so_and_changes_nothing(tmp_path: Path) -> None:
    own = Daemon(tmp_path)
    own.policy.write_text("")
    own.grant(os.getuid(), rights=RIGHTS)
    with own, own.connect() as client:
        for version in ("1", "2"):
            put(client, "ocr", version)
        for call in (
            lambda: client.catalogue.use("ocr", "1"),
            lambda: client.catalogue.remove("ocr", "1"),
            lambda: client.catalogue.prune("ocr"),
        ):
            with pytest.raises(DeniedError, match="'manage'"):
                call()
        assert client.catalogue.prune().generations == ()
        assert run(own, "use", "ocr@1", code=5)["error"]["kind"] == "DeniedError"
        listed = [(each.version, each.current) for each in client.catalogue.list()]
        assert listed == [("1", False), ("2", True)]


def test_every_change_is_accounted_for(daemon: Daemon, client: Client) -> None:
    for version in ("1", "2"):
        put(client, "audited", version)
    client.catalogue.use("audited", "1")
    client.catalogue.remove("audited", "2")
    client.catalogue.prune("audited")
    lines = [
        json.loads(line)
        for file in sorted((daemon.folder / "state/audit").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    steps = [
        (line["step"], line.get("version"), line["outcome"], line["rule"].startswith("grant 1"))
        for line in lines
        if line["event"] == "decision"
        and line.get("package") == "audited"
        and line.get("right") == "manage"
    ]
    assert steps == [
        ("set-current", "1", "done", True),
        ("remove", "2", "done", True),
        ("prune", None, "done", True),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("use", "ocr"),
        ("rm", "ocr", "--yes"),
        ("prune", "ocr/det"),
    ],
)
def test_what_names_no_version_is_wrong_usage(daemon: Daemon, arguments: tuple[str, ...]) -> None:
    assert run(daemon, *arguments, code=2)["error"]["exit_code"] == 2
