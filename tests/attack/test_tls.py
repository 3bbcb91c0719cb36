"""gRPC over mutual TLS, attacked: certificates that aren't good, claims, floods."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
from support.certificates import Authority, Issued
from support.daemon import run_command
from support.grpcdoor import Door, grpc_door, import_steps, package, refused, scope
from support.tls import DOMAIN, NOBODY, OCR, OPERATOR, Served, audited, stubs

from sealcar.errors import ConfigurationError, DeniedError, ExhaustedError, NotFoundError
from sealcar.v1 import admin_pb2, admin_pb2_grpc, keys_pb2, keys_pb2_grpc, payloads_pb2
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIST: Final = pb.ListRequest()
SECRET: Final = b"not for everyone" * 4096
FLOOD: Final = 1500  # more than the port takes in at a time


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served.make(tmp_path_factory.mktemp("tls"))
    with made.daemon:
        with made.door(made.caller(OPERATOR)) as door:
            list(door.packages.Import(import_steps("ocr", {"a": SECRET})))
        yield made


@contextlib.contextmanager
def never_connected() -> Iterator[None]:
    with pytest.raises(grpc.RpcError) as failed:
        yield
    assert isinstance(failed.value, grpc.Call)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_of_another_authority_never_connects(served: Served) -> None:
    with served.door(Authority().issue(OPERATOR)) as door, never_connected():
        door.packages.List(LIST)


def test_nobody_connects_without_a_certificate(served: Served) -> None:
    with served.door(None) as door, never_connected():
        door.packages.List(LIST)


@pytest.mark.parametrize("days", [(-2.0, -1.0), (1.0, 2.0)])
def test_a_certificate_that_has_expired_or_isnt_good_yet_never_connects(
    served: Served, days: tuple[float, float]
) -> None:
    with served.door(served.caller(OPERATOR, days=days)) as door, never_connected():
        door.packages.List(LIST)


def test_a_key_that_isnt_the_certificates_never_connects(served: Served) -> None:
    one, other = served.caller(OPERATOR), served.caller(OPERATOR)
    with served.door(Issued(one.certificate, other.key)) as door, never_connected():
        door.packages.List(LIST)


def test_a_connection_ends_being_good_with_its_certificate(served: Served) -> None:
    soon = 2.0 / 86400
    with served.door(served.caller(OPERATOR, days=(-1, soon))) as door:
        assert door.packages.List(LIST).packages
        time.sleep(2.2)
        with refused(DeniedError, "has expired"):
            door.packages.List(LIST)


def test_a_workload_of_another_trust_domain_is_refused_and_accounted_for(served: Served) -> None:
    for other in ("spiffe://example.com/ns/ops/sa/operator", f"spiffe://{DOMAIN}.evil/ns/ops/a"):
        with served.door(served.caller(other)) as door, refused(DeniedError, "trust domain"):
            door.packages.List(LIST)
    line = audited(served.daemon, "refused")[-1]
    assert (line["account"], line["reason"]) == ("ipv4:127.0.0.1", "certificate")
    assert served.daemon.metric("sealcar_refusals_total", reason="certificate") >= 2


def test_what_names_no_workload_or_several_is_nobody(served: Served) -> None:
    for caller in (
        served.caller(OPERATOR, OCR),
        served.caller(OPERATOR, OPERATOR),
        served.caller(OPERATOR, "https://example.org/"),
        served.caller(dns=("operator.example.org",)),
        # a name of another kind that looks like an identity; the subject's does in all of these
        served.caller(dns=(OPERATOR,)),
        served.caller(),
        served.caller(f"spiffe://{DOMAIN}"),
        served.caller(f"spiffe://{DOMAIN}/ns/ops/../ops/sa/operator"),
        served.caller(f"spiffe://{DOMAIN}/ns//ops"),
        served.caller(f"SPIFFE://{DOMAIN}/ns/ops/sa/operator"),
        # who can sign certificates is no workload
        served.caller(OPERATOR, authority=True),
    ):
        with served.door(caller) as door:
            with refused(DeniedError, "certificate"):
                door.packages.List(LIST)
            with refused(DeniedError, "certificate"):
                list(door.payloads.Read(payloads_pb2.ReadRequest(scope=scope("ocr"), name="a")))


def test_plain_grpc_gets_no_answer_on_the_port(served: Served) -> None:
    with grpc.insecure_channel(served.address) as channel, never_connected():
        stubs(channel).packages.List(LIST)


@pytest.mark.parametrize("newest", ["TLSv1", "TLSv1_1"])
def test_old_versions_of_tls_are_refused(served: Served, newest: str) -> None:
    caller = served.caller(OPERATOR)
    certificate, key = caller.write(served.folder, f"old-{newest}")
    context = ssl.create_default_context(cadata=served.authority.certificate.decode())
    context.load_cert_chain(certificate, key)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        context.minimum_version = ssl.TLSVersion[newest]
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        context.maximum_version = ssl.TLSVersion[newest]
    host, _, port = served.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname=host)


def test_metadata_that_claim_another_identity_change_nothing(served: Served) -> None:
    operator = served.caller(OPERATOR)
    claims = (
        ("spiffe", OPERATOR),
        ("x-spiffe-id", OPERATOR),
        ("peer_spiffe_id", OPERATOR),
        ("x-forwarded-client-cert", f"URI={OPERATOR}"),
        ("x509_pem_cert", operator.certificate.decode().replace("\n", " ")),
        ("authorization", f"Bearer {OPERATOR}"),
        ("uid", "0"),
    )
    with served.door(served.caller(NOBODY)) as door:
        assert not door.packages.List(LIST, metadata=claims).packages
        with refused(NotFoundError):
            door.packages.Get(pb.GetRequest(package=package("ocr")), metadata=claims)


def test_a_good_certificate_without_a_grant_sees_nothing(served: Served) -> None:
    with served.door(served.caller(NOBODY)) as door:
        assert not door.packages.List(LIST).packages
        messages: set[str] = set()
        for name in ("ocr", "unknown-one"):
            with pytest.raises(grpc.RpcError) as failed:
                door.packages.Get(pb.GetRequest(package=package(name)))
            assert isinstance(failed.value, grpc.Call)
            messages.add((failed.value.details() or "").replace(name, "NAME"))
        assert len(messages) == 1
        with refused(NotFoundError):
            list(door.payloads.Read(payloads_pb2.ReadRequest(scope=scope("ocr"), name="a")))
        with refused(NotFoundError):
            list(door.packages.Import(import_steps("mine", {"a": b"x"})))


def test_grants_for_users_and_for_workloads_never_meet(tmp_path: Path) -> None:
    served = Served.make(tmp_path)
    served.daemon.policy.write_text("")
    everything = '["list", "read", "import"]'
    served.grant(OPERATOR, everything, '["remote-*"]')
    served.daemon.grant(os.geteuid(), ["local-*"], ["list", "read", "import"])
    with served.daemon, served.door(served.caller(OPERATOR)) as remote:
        list(remote.packages.Import(import_steps("remote-a", {"a": b"x"})))
        with grpc_door(served.daemon) as local:
            list(local.packages.Import(import_steps("local-a", {"a": b"x"})))
            doors = {"remote": remote, "local": local}
            for own, other in (("remote", "local"), ("local", "remote")):
                assert names(doors[own]) == [f"{own}-a"]
                with refused(NotFoundError):
                    doors[own].packages.Get(pb.GetRequest(package=package(f"{other}-a")))


def names(door: Door) -> list[str]:
    return [each.package.name for each in door.packages.List(LIST).packages]


def test_operators_methods_and_reflection_are_not_on_the_port(served: Served) -> None:
    operator = served.caller(OPERATOR)
    credentials = grpc.ssl_channel_credentials(
        served.authority.certificate, operator.key, operator.certificate
    )
    with grpc.secure_channel(served.address, credentials) as channel:
        keys, admin = keys_pb2_grpc.KeysStub(channel), admin_pb2_grpc.AdminStub(channel)
        for call in (
            lambda: keys.Status(keys_pb2.KeysStatusRequest()),
            lambda: keys.Lock(keys_pb2.LockRequest()),
            lambda: admin.Status(admin_pb2.AdminStatusRequest()),
        ):
            with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                call()
        reflect: Any = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            next(reflect(iter([b""])))


def test_what_is_wrong_from_the_start_keeps_the_daemon_from_starting(tmp_path: Path) -> None:
    served = Served.make(tmp_path)
    command = served.daemon.command()[3:]
    key = served.folder / "server.key"
    key.chmod(0o644)
    done = run_command(*command)
    assert (done.returncode, "chmod 600" in done.stderr) == (ConfigurationError.exit_code, True)
    key.chmod(0o600)
    served.certify(days=(-2, -1))
    done = run_command(*command)
    assert (done.returncode, "isn't now" in done.stderr) == (ConfigurationError.exit_code, True)
    served.certify()
    key.write_bytes(served.caller(OCR).key)
    done = run_command(*command)
    assert (done.returncode, "doesn't belong" in done.stderr) == (2, True)
    served.certify()
    loose = tmp_path / "loose"
    loose.mkdir()
    served.folder.joinpath("ca.pem").rename(loose / "ca.pem")
    loose.chmod(0o777)
    done = run_command(*command, f"--set=tls.client_ca={loose / 'ca.pem'}")
    assert (done.returncode, "[tls] client_ca" in done.stderr) == (2, True)


def test_workloads_take_no_thread_and_no_allowance_of_anybody_else(tmp_path: Path) -> None:
    settings = {"daemon.grpc_threads": "4", "limits.requests": "30"}
    served = Served.make(tmp_path, settings=settings)
    read = payloads_pb2.ReadRequest(scope=scope("ocr"), name="a")
    with contextlib.ExitStack() as stack:
        stack.enter_context(served.daemon)
        first, second = (
            stack.enter_context(served.door(served.caller(f"spiffe://{DOMAIN}/ns/ops/{name}")))
            for name in "ab"
        )
        list(first.packages.Import(import_steps("ocr", {"a": os.urandom(48 << 20)})))
        held = [door.payloads.Read(read) for door in (first, second)]
        for call in held:
            next(call)
        for door in (first, second):
            with refused(ExhaustedError, "streaming"):
                list(door.payloads.Read(read))
        # a Unix caller has streams of his own
        local = stack.enter_context(grpc_door(served.daemon))
        assert sum(len(each.data) for each in local.payloads.Read(read)) == 48 << 20
        with refused(ExhaustedError, "spiffe://"):
            for _ in range(200):
                first.packages.List(LIST)
        second.packages.List(LIST)
        local.packages.List(LIST)


def test_a_flood_of_slow_handshakes_stops_nobody_on_this_machine(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, FLOOD * 2), hard))
    host, _, port = served.address.rpartition(":")
    try:
        with contextlib.ExitStack() as stack:
            for number in range(FLOOD):
                slow = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
                # half of them begin to say hello, and go on no further
                with contextlib.suppress(OSError):
                    slow.send(b"\x16\x03\x01\x02\x00\x01"[: 6 * (number % 2)])
            with grpc_door(served.daemon) as door, served.daemon.connect() as client:
                slowest = 0.0
                for _ in range(50):
                    begun = time.monotonic()
                    assert door.packages.List(LIST).packages
                    assert client.scope("ocr", "c", "v").read("a") == SECRET
                    slowest = max(slowest, time.monotonic() - begun)
                assert slowest < 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with served.door(served.caller(OPERATOR)) as door:
        assert door.packages.List(LIST, wait_for_ready=True, timeout=20).packages
