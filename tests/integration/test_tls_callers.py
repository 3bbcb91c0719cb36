"""gRPC over mutual TLS: programs and commands on another machine, as they would use it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import models, pages
from support.certificates import Authority
from support.daemon import run_command
from support.grpcdoor import import_steps, refused, scope, write_steps
from support.tls import DOMAIN, OCR, OPERATOR, Served, audited

import sealcar
from sealcar.errors import (
    ConfigurationError,
    DeniedError,
    NotFoundError,
    UnavailableError,
    WrongStateError,
)
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator


DATA = os.urandom(3_000_000)
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Give a daemon over TLS, with one package, that all tests here share."""
    made = Served.make(tmp_path_factory.mktemp("tls"))
    with made.daemon:
        with made.door(made.caller(OPERATOR)) as door:
            list(door.packages.Import(import_steps("ocr", {"a": DATA, "empty": b""})))
        yield made


def over_tls(served: Served, spiffe: str) -> dict[str, str]:
    files = served.files(spiffe)
    return {
        "SEALCAR_REMOTE": served.address,
        "SEALCAR_TLS_CA": str(files["ca"]),
        "SEALCAR_TLS_CERT": str(files["certificate"]),
        "SEALCAR_TLS_KEY": str(files["key"]),
    }


def test_a_workload_lists_opens_and_reads_what_it_was_granted(served: Served) -> None:
    with served.client(OCR) as client:
        assert [each.name for each in client.catalogue.list()] == ["ocr"]
        assert client.catalogue.get("ocr").verified
        named = client.scope("ocr", "c", "v")
        assert named.read("a") == DATA
        found = client.scope("ocr")
        assert [each.name for each in found.payloads] == ["a", "empty"]
        assert (found.component, found.variant, found.generation) == ("c", "v", 1)
        assert found.read("empty") == b""
        with found.map("a") as mapped:
            assert bytes(mapped.view) == DATA
        own = found.named("a", shared=True)
        assert own
        with own:
            assert own.read() == DATA


def test_the_program_that_the_document_shows_works(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [
        block.text
        for block in pages.blocks(OPERATIONS.read_text())
        if "connect_remote" in block.text
    ]
    served.files(OPERATOR, "me")
    monkeypatch.chdir(served.folder)
    exec(shown.replace("models.example.org:7443", served.address), {})  # noqa: S102  (our own text)
    assert capsys.readouterr().out.splitlines()[-1] == str(len(DATA))


def test_a_stream_goes_straight_to_its_destination_and_once(served: Served) -> None:
    with served.client(OCR) as client:
        target = bytearray(len(DATA))
        with client.scope("ocr", "c", "v").reader("a") as reader:
            assert reader.size == len(DATA)
            reader.read_into(target)
            assert target == DATA
            with pytest.raises(WrongStateError):
                reader.read_into(target)
        with pytest.raises(NotFoundError, match="no payload of that name"):
            client.scope("ocr", "c", "v").reader("b")


def test_who_lacks_a_right_is_told_so_and_who_has_none_sees_nothing(served: Served) -> None:
    with served.client(OCR) as client, pytest.raises(DeniedError, match=OCR):
        client.catalogue.verify("ocr")
    with served.client(f"spiffe://{DOMAIN}/ns/test/sa/x") as client:
        assert list(client.catalogue.list()) == []
        with pytest.raises(NotFoundError):
            client.catalogue.get("ocr")
        with pytest.raises(NotFoundError):
            client.scope("ocr", "c", "v").read("a")


def test_a_transaction_belongs_to_its_workload_alone(served: Served) -> None:
    other = f"spiffe://{DOMAIN}/ns/ops/sa/other"
    with served.door(served.caller(OPERATOR)) as mine, served.door(served.caller(other)) as theirs:
        begun = mine.payloads.Begin(payloads_pb2.BeginRequest(scope=scope("ocr", "c", "written")))
        with refused(NotFoundError, "no such transaction"):
            theirs.payloads.Write(write_steps(begun.transaction, "b", [b"theirs"]))
        # an abort says nothing of whether there was one
        theirs.payloads.Abort(payloads_pb2.AbortRequest(transaction=begun.transaction))
        # another connection, and another certificate, of the same workload
        with served.door(served.caller(OPERATOR)) as again:
            again.payloads.Write(write_steps(begun.transaction, "b", [b"mine"]))
            again.payloads.Abort(payloads_pb2.AbortRequest(transaction=begun.transaction))


def test_commands_work_on_a_daemon_elsewhere(served: Served, tmp_path: Path) -> None:
    model = tmp_path / "detector.onnx"
    model.write_bytes(models.whole_model())
    remote = over_tls(served, OPERATOR)
    done = run_command("import", str(model), "--name", "cli", "--component", "det", **remote)
    assert done.returncode == 0, done.stderr
    listed = json.loads(run_command("ls", "cli", "--json", **remote).stdout)
    assert [each["name"] for each in listed["packages"]] == ["cli"]
    assert "sealed" in run_command("inspect", "cli/det", **remote).stdout
    assert "all authentic" in run_command("verify", "cli", **remote).stdout
    done = run_command("export", "cli", str(tmp_path / "out"), **remote)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "manifest.json").is_file()
    reader = over_tls(served, OCR)
    assert run_command("verify", "cli", **reader).returncode == DeniedError.exit_code


def test_options_win_over_the_environment_and_two_daemons_are_a_mistake(served: Served) -> None:
    remote = over_tls(served, OPERATOR)
    socket = str(served.daemon.socket)
    assert run_command("ls", "--socket", socket, **remote).returncode == 0
    options = ["--remote", served.address]
    for name in ("ca", "cert", "key"):
        options += [f"--tls-{name}", remote[f"SEALCAR_TLS_{name.upper()}"]]
    done = run_command("ls", *options, SEALCAR_SOCKET="/nowhere")
    assert done.returncode == 0, done.stderr
    done = run_command("ls", *options, "--socket", socket)
    assert (done.returncode, "two daemons" in done.stderr) == (2, True)
    done = run_command("ls", "--tls-ca", "x")
    assert (done.returncode, "go with --remote" in done.stderr) == (2, True)
    done = run_command("ls", *options[:2])
    assert (done.returncode, "SEALCAR_TLS_CA" in done.stderr) == (2, True)


def test_a_daemon_that_is_somebody_else_is_told_nothing(served: Served, tmp_path: Path) -> None:
    files = served.files(OPERATOR)
    other = tmp_path / "ca.pem"
    other.write_bytes(Authority().certificate)
    with (
        sealcar.connect_remote(served.address, **{**files, "ca": other}) as client,
        pytest.raises(UnavailableError, match="over mutual TLS"),
    ):
        list(client.catalogue.list())
    with (
        sealcar.connect_remote(served.address, **files, server_name="example.org") as client,
        pytest.raises(UnavailableError, match="must be for that host"),
    ):
        list(client.catalogue.list())
    with sealcar.connect_remote(served.address, **files, server_name="localhost") as client:
        assert list(client.catalogue.list())


def test_a_client_refuses_a_key_that_others_can_read_and_files_that_are_none(
    served: Served, tmp_path: Path
) -> None:
    files = served.files(OPERATOR, "loose")
    files["key"].chmod(0o640)
    with (
        sealcar.connect_remote(served.address, **files) as client,
        pytest.raises(ConfigurationError, match="chmod 600"),
    ):
        list(client.catalogue.list())
    files["key"].chmod(0o600)
    for name in ("ca", "certificate", "key"):
        wrong = {**files, name: tmp_path / "missing.pem"}
        with (
            sealcar.connect_remote(served.address, **wrong) as client,
            pytest.raises(ConfigurationError, match=r"missing\.pem"),
        ):
            list(client.catalogue.list())
    with (
        sealcar.connect_remote("nowhere", **files) as client,
        pytest.raises(ConfigurationError, match="HOST:PORT"),
    ):
        list(client.catalogue.list())
    with pytest.raises(ConfigurationError, match="SEALCAR_TLS_KEY"):
        sealcar.connect_remote(served.address, ca=files["ca"], certificate=files["certificate"])


def test_the_audit_log_names_the_workload_and_no_uid(served: Served) -> None:
    with served.client(OCR) as client:
        client.scope("ocr", "c", "v").read("a")
    line = audited(served.daemon, "decision")[-1]
    assert line["spiffe"] == OCR
    assert "uid" not in line
    assert line["right"] == "read"
    assert line["rule"].startswith("grant ")


def test_policies_are_checked_and_explained_for_workloads(served: Served) -> None:
    policy = str(served.daemon.policy)
    assert f'spiffe = "spiffe://{DOMAIN}/ns/ops/*"' in run_command("policy", "check", policy).stdout
    explain = ("policy", "explain", "--file", policy)
    done = run_command(*explain, "--spiffe", OCR, "read", "ocr/det")
    assert (done.returncode, f"yes: {OCR}" in done.stdout) == (0, True)
    done = run_command(*explain, "--spiffe", OCR, "verify", "ocr")
    assert done.returncode == 1
    assert "doesn't give 'verify'" in done.stdout
    assert run_command(*explain, "--spiffe", "ocr", "read", "ocr").returncode == 2
    assert run_command(*explain, "--spiffe", OCR, "--uid", "1", "read", "ocr").returncode == 2
    assert run_command(*explain, "read", "ocr").returncode == 2
