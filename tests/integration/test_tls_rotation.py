"""Mutual TLS while it runs: certificates that are replaced, grants and keys that are taken away."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from support.certificates import Authority
from support.daemon import run_command
from support.grpcdoor import import_steps, package, refused, scope, write_steps
from support.tls import OCR, OPERATOR, Served, audited, until

from sealcar.errors import (
    ConfigurationError,
    DeniedError,
    LockedError,
    NotFoundError,
    WrongStateError,
)
from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1 import payloads_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    """Give a daemon over TLS that one test has for itself."""
    made = Served.make(tmp_path)
    with made.daemon:
        yield made


def test_certificates_are_replaced_while_it_serves(fresh: Served) -> None:
    authority = fresh.authority
    with fresh.door(authority.issue(OPERATOR)) as before:
        before.packages.List(pb.ListRequest())
        # another authority takes over, for the daemon and for callers
        fresh.authority = Authority()
        fresh.folder.joinpath("ca.pem").write_bytes(fresh.authority.certificate)
        fresh.certify()
        fresh.reload()
        until(lambda: "certificates replaced" in fresh.events())
        # what was connected stays so, for a while
        before.packages.List(pb.ListRequest())
    with fresh.client(OPERATOR) as after:
        assert list(after.catalogue.list()) == []
    old = authority.issue(OPERATOR)
    with (
        fresh.door(old, root=fresh.authority.certificate) as door,
        pytest.raises(grpc.RpcError, match="UNAVAILABLE"),
    ):
        door.packages.List(pb.ListRequest())
    assert fresh.daemon.metric("sealcar_tls_broken") == 0
    assert fresh.daemon.metric("sealcar_tls_certificate_end_timestamp_seconds") > time.time()


def test_broken_new_certificates_change_nothing_and_are_told(fresh: Served) -> None:
    good = fresh.folder.joinpath("server.key").read_bytes()
    fresh.folder.joinpath("server.key").write_bytes(Authority().issue(OCR).key)
    fresh.reload()
    until(lambda: "certificates not replaced" in fresh.events())
    assert fresh.daemon.metric("sealcar_tls_broken") == 1
    with fresh.client(OPERATOR) as client:
        assert list(client.catalogue.list()) == []
    fresh.folder.joinpath("server.key").write_bytes(good)
    fresh.reload()
    until(lambda: fresh.daemon.metric("sealcar_tls_broken") == 0)


def test_what_was_wrong_beside_the_files_is_found_mended_when_they_are_read_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    served = Served.make(tmp_path)
    key = tmp_path.joinpath("server.key").read_bytes()
    folder.joinpath("server.key").write_bytes(key)
    folder.joinpath("server.key").chmod(0o600)
    served.daemon.settings |= {"tls.key": f"file:{folder / 'server.key'}"}
    with served.daemon:
        folder.chmod(0o777)
        folder.joinpath("server.key").write_bytes(key)
        until(lambda: served.daemon.metric("sealcar_tls_broken") == 1)
        # nothing of this shows in the files
        folder.chmod(0o700)
        served.reload()
        until(lambda: served.daemon.metric("sealcar_tls_broken") == 0)


def test_a_swapped_link_as_kubernetes_makes_them_is_followed(tmp_path: Path) -> None:
    served = Served.make(tmp_path)
    volume = tmp_path / "volume"
    for version in ("..1", "..2"):
        place = volume / version
        place.mkdir(parents=True)
        served.certify()
        for name in ("server.pem", "server.key", "ca.pem"):
            place.joinpath(name).write_bytes(tmp_path.joinpath(name).read_bytes())
            place.joinpath(name).chmod(0o600)
    # as a volume is mounted: everybody may write there, and replace nothing of others
    volume.chmod(0o1777)
    volume.joinpath("..data").symlink_to("..1")
    for name in ("server.pem", "server.key", "ca.pem"):
        volume.joinpath(name).symlink_to(f"..data/{name}")
    served.daemon.settings |= {
        "tls.certificate": str(volume / "server.pem"),
        "tls.key": f"file:{volume / 'server.key'}",
        "tls.client_ca": str(volume / "ca.pem"),
    }
    with served.daemon:
        volume.joinpath("..new").symlink_to("..2")
        volume.joinpath("..new").replace(volume / "..data")
        until(lambda: "certificates replaced" in served.events())
        with served.client(OPERATOR) as client:
            assert list(client.catalogue.list()) == []


def test_a_client_takes_its_new_certificate_without_being_made_anew(fresh: Served) -> None:
    with fresh.client(OCR) as client:
        assert list(client.catalogue.list()) == []
        # the same file is another workload's from now on, which shows in what it may do
        fresh.caller(OPERATOR).write(fresh.folder, "caller")
        with pytest.raises(NotFoundError):
            client.catalogue.verify("unknown")
        listed = audited(fresh.daemon, "decision")
        assert [line["spiffe"] for line in listed][-1] == OPERATOR


def test_a_grant_that_is_taken_away_ends_what_runs_over_tls(fresh: Served) -> None:
    with fresh.door(fresh.caller(OPERATOR)) as door:
        list(door.packages.Import(import_steps("ocr", {"big": os.urandom(64 << 20)})))
    with fresh.door(fresh.caller(OCR)) as door:
        call = door.payloads.Read(payloads_pb2.ReadRequest(scope=scope("ocr"), name="big"))
        next(call)
        text = fresh.daemon.policy.read_text()
        fresh.daemon.policy.write_text(text.replace("/ns/prod/*", "/ns/none/*"))
        fresh.reload()
        until(lambda: "policy reloaded" in fresh.events())
        with refused(DeniedError, "taken away"):
            list(call)


def test_a_lock_ends_streams_over_tls_too(fresh: Served) -> None:
    with fresh.door(fresh.caller(OPERATOR)) as door:
        list(door.packages.Import(import_steps("ocr", {"big": os.urandom(64 << 20)})))
        call = door.payloads.Read(payloads_pb2.ReadRequest(scope=scope("ocr"), name="big"))
        next(call)
        done = run_command("lock", "--admin", str(fresh.daemon.admin))
        assert done.returncode == 0, done.stderr
        with pytest.raises(grpc.RpcError, match=r"lock|CANCELLED"):
            list(call)
        with refused(LockedError):
            list(door.packages.Verify(pb.VerifyRequest(package=package("ocr"))))


@pytest.mark.parametrize("missing", ["certificate", "key", "client_ca", "trust_domain"])
def test_an_address_without_all_of_it_keeps_the_daemon_from_starting(
    tmp_path: Path, missing: str
) -> None:
    served = Served.make(tmp_path)
    del served.daemon.settings[f"tls.{missing}"]
    done = run_command(*served.daemon.command()[3:])
    assert done.returncode == ConfigurationError.exit_code
    assert f"[tls] {missing} is missing" in done.stderr


def test_a_policy_that_names_another_trust_domain_is_refused(tmp_path: Path) -> None:
    served = Served.make(tmp_path)
    served.grant("spiffe://example.com/a", '["read"]')
    done = run_command(*served.daemon.command()[3:])
    assert done.returncode == ConfigurationError.exit_code
    assert "example.com" in done.stderr


def test_a_transaction_that_nobody_uses_expires(tmp_path: Path) -> None:
    served = Served.make(tmp_path, settings={"transfer.transaction_ttl": "1s"})
    with served.daemon, served.door(served.caller(OPERATOR)) as door:
        list(door.packages.Import(import_steps("ocr", {"a": b"words"})))
        begun = door.payloads.Begin(payloads_pb2.BeginRequest(scope=scope("ocr", "c", "w")))
        staged = [*served.daemon.store.joinpath(".staging").iterdir()]
        until(lambda: not any(each.exists() for each in staged))
        with refused(WrongStateError, "aborted"):
            door.payloads.Write(write_steps(begun.transaction, "b", [b"x"]))
