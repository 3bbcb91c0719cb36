"""What a client keeps of an export: nothing, unless all of it is what it should be."""

from __future__ import annotations

import json
import os
import signal
from concurrent import futures
from typing import TYPE_CHECKING

import grpc
import pytest
from support.caller import call_as
from support.daemon import Daemon
from support.grpcdoor import grpc_door, package, refused
from support.payload_packages import PlannedBytes, PlannedPackage, varied
from support.raw_clients import until
from support.tampering import flip

from sealcar import errors
from sealcar.catalogue import Catalogue
from sealcar.exports import Destination
from sealcar.oci.outflow import Outflow
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ME = os.geteuid()
BIG = varied(24 << 20)
MANIFEST = "manifest.json"


class Liar:
    """A server that answers every export with the same messages."""

    def __init__(self, folder: Path) -> None:
        self.answers: list[pb.ExportResponse] = []
        self.folder = folder
        self._pool = futures.ThreadPoolExecutor(2)
        self._server = grpc.server(self._pool)
        export = grpc.unary_stream_rpc_method_handler(
            lambda _request, _context: iter(self.answers),
            request_deserializer=pb.ExportRequest.FromString,
            response_serializer=pb.ExportResponse.SerializeToString,
        )
        handler = grpc.method_handlers_generic_handler(
            "sealcar.v1.PackageStore", {"Export": export}
        )
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix:{folder / 'grpc.sock'}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(0).wait()
        self._pool.shutdown()


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    liar = Liar(tmp_path_factory.mktemp("l"))
    yield liar
    liar.stop()


def begun(files: int, size: int, name: str = "m") -> pb.ExportResponse:
    begin = pb.ExportBegin(package=package(name, "1"), generation=1, files=files, size=size)
    return pb.ExportResponse(begin=begin)


def file(path: str, data: bytes = b"", size: int | None = None) -> list[pb.ExportResponse]:
    told = pb.ExportFile(path=path, size=len(data) if size is None else size)
    sent = [pb.ExportResponse(data=data)] if data else []
    return [pb.ExportResponse(file=told), *sent]


def finished(files: int) -> pb.ExportResponse:
    return pb.ExportResponse(finish=pb.ExportFinish(files=files))


def whole(*paths: str) -> list[pb.ExportResponse]:
    """Return an export of empty files, in this order."""
    sent = [message for path in paths for message in file(path)]
    return [begun(len(paths), 0), *sent, finished(len(paths))]


PATHS = [
    "../x",
    "../../../../tmp/x",
    "/etc/x",
    "c/v/../../../x",
    "c/../../x",
    "c/v/.hidden",
    "c/v",
    "x",
    "",
    ".",
    "c//x",
    "c/v/a\\b",
    "c/v/a\nb",
    "c/v/a\0b",
    "c/v/" + "x" * 300,
    "manifest.json/v/x",
    "c/component.json/x",
    "c/v/manifest.json",
    "shared_assets/x",
    "shared_assets/v/x",
    "shared_assets/sha256-12/x",
    f"shared_assets/sha256-{'a' * 64}/../x",
    f"shared_assets/sha256-{'a' * 64}",
    "c/v/e\u0301",
]


@pytest.mark.parametrize("path", PATHS, ids=ascii)
@pytest.mark.parametrize("tar", [False, True], ids=["directory", "tar"])
def test_a_path_that_is_none_of_a_package_is_refused_and_nothing_is_kept(
    liar: Liar, tmp_path: Path, path: str, *, tar: bool
) -> None:
    liar.answers = whole(*sorted((path, MANIFEST), key=str.encode))
    assert isinstance(exported(liar, tmp_path, tar=tar), errors.NotAuthenticError)


WRONG = {
    "out of order": (whole(MANIFEST, "c/v/x"), errors.NotAuthenticError),
    "twice": (whole("c/v/x", "c/v/x", MANIFEST), errors.NotAuthenticError),
    "without a manifest": (whole("c/v/x"), errors.TruncatedError),
    "a file below a file": (
        whole("c/v/x", "c/v/x-", "c/v/x/y", MANIFEST),
        errors.NotAuthenticError,
    ),
    "no begin": ([*file(MANIFEST), finished(1)], errors.IncompatibleError),
    "begin twice": ([begun(1, 0), begun(1, 0)], errors.IncompatibleError),
    "nothing": ([], errors.TruncatedError),
    "an empty message": ([begun(0, 0), pb.ExportResponse()], errors.IncompatibleError),
    "no finish": ([begun(1, 0), *file(MANIFEST)], errors.TruncatedError),
    "files below files": (
        whole("c/v/x", "c/v/x!", "c/v/x!/y/z", MANIFEST),
        errors.NotAuthenticError,
    ),
    "another package": ([begun(1, 0, name="other"), *file(MANIFEST)], errors.NotAuthenticError),
    "a cut file": ([begun(1, 3), *file(MANIFEST, b"ab", 3), finished(1)], errors.TruncatedError),
    "a file too long": ([begun(1, 2), *file(MANIFEST, b"abc", 2)], errors.NotAuthenticError),
    "data before a file": ([begun(1, 2), pb.ExportResponse(data=b"ab")], errors.NotAuthenticError),
    "more bytes than announced": ([begun(1, 2), *file(MANIFEST, b"abc")], errors.NotAuthenticError),
    "more files than announced": (
        [begun(1, 0), *file("c/v/x"), *file(MANIFEST), finished(2)],
        errors.NotAuthenticError,
    ),
    "fewer files than announced": (
        [begun(2, 0), *file(MANIFEST), finished(2)],
        errors.TruncatedError,
    ),
    "fewer bytes than announced": (
        [begun(1, 9), *file(MANIFEST), finished(1)],
        errors.TruncatedError,
    ),
    "another number at the end": (
        [begun(1, 0), *file(MANIFEST), finished(2)],
        errors.TruncatedError,
    ),
}


@pytest.mark.parametrize(("answers", "kind"), WRONG.values(), ids=WRONG)
def test_a_stream_that_is_no_whole_export_is_refused_and_nothing_is_kept(
    liar: Liar, tmp_path: Path, answers: list[pb.ExportResponse], kind: type[errors.SealcarError]
) -> None:
    liar.answers = answers
    for tar in (False, True):
        error = exported(liar, tmp_path, tar=tar)
        assert isinstance(error, kind), error


def test_what_is_pushed_has_each_byte_once_whatever_comes_between(liar: Liar) -> None:
    told = pb.ExportResponse(progress=pb.Progress(done=1))
    rest = pb.ExportResponse(data=b"c")
    liar.answers = [
        *(begun(2, 5), *file("c/v/x", b"ab", 3), told, rest),
        *(*file(MANIFEST, b"{}"), finished(2)),
    ]
    with (
        Catalogue.at(liar.folder, peer_uid=ME, timeout=10) as catalogue,
        Outflow(catalogue.outgoing("m"), None) as files,
    ):
        sent = {path: b"".join(files.pieces()) for path, _ in files}
    assert sent == {"c/v/x": b"abc", MANIFEST: b"{}"}


def exported(liar: Liar, folder: Path, *, tar: bool) -> errors.SealcarError:
    """Return the error of an export; it must have left nothing."""
    out = folder / "deep" / "out"
    out.parent.mkdir(exist_ok=True)
    with (
        Catalogue.at(liar.folder, peer_uid=ME, timeout=10) as catalogue,
        pytest.raises(errors.SealcarError) as caught,
    ):
        catalogue.export("m", Destination(out, tar))
    assert [path.name for path in folder.rglob("*")] == ["deep"]
    return caught.value


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("d"), reachable=True)
    made.grant(ME, rights=["export", "export-plain"])
    made.grant(4301, rights=["list", "read", "write", "import", "verify", "manage", "reseal"])
    made.grant(4302, rights=["export"])
    made.grant(4303, packages=["other"], rights=["export", "export-plain"])
    made.grant(4304, components=["c"], rights=["list", "export", "export-plain"])
    with made as daemon:
        with daemon.connect(peer_uid=ME) as client:
            for name in ("m", "bent", "going"):
                payloads = (PlannedBytes("big", "blob", BIG), PlannedBytes("last", "other", b"x"))
                client.catalogue.import_(PlannedPackage(payloads, name))
        yield daemon


@pytest.mark.root
@pytest.mark.parametrize(
    ("uid", "plain", "error"),
    [
        (4301, False, "DeniedError"),
        (4301, True, "DeniedError"),
        (4302, True, "NotFoundError"),
        (4303, False, "NotFoundError"),
        (4304, False, "DeniedError"),
        (4304, True, "DeniedError"),
        (4305, False, "NotFoundError"),
    ],
)
def test_no_right_includes_that_to_export_and_none_at_all_that_to_export_in_plain(
    daemon: Daemon, uid: int, error: str, *, plain: bool
) -> None:
    request = {"package": {"name": "m"}, "plain": plain}
    (outcome,) = call_as(uid, daemon.socket, {"method": "PackageStore.Export", "request": request})
    assert outcome["error"] == error


def put(daemon: Daemon, policy: str) -> None:
    before = daemon.metric("sealcar_policy_generation")
    daemon.policy.write_text(policy)
    os.kill(daemon.pid, signal.SIGHUP)
    until(lambda: daemon.metric("sealcar_policy_generation") > before)


@pytest.mark.parametrize("plain", [False, True], ids=["sealed", "plain"])
def test_an_export_under_way_ends_when_its_grant_is_taken_away(
    daemon: Daemon, tmp_path: Path, *, plain: bool
) -> None:
    policy = daemon.policy.read_text()
    request = pb.ExportRequest(package=package("m"), plain=plain)
    try:
        with grpc_door(daemon) as door:
            answers = door.packages.Export(request)
            assert next(answers).HasField("begin")
            put(daemon, policy.replace('"export', '"verify').replace("-plain", ""))
            with refused(errors.DeniedError, "taken away"):
                list(answers)
    finally:
        put(daemon, policy)
    assert not list(tmp_path.iterdir())


def test_a_plain_export_of_a_damaged_package_leaves_nothing(daemon: Daemon, tmp_path: Path) -> None:
    flip(daemon.store / "bent/1/g/1/c/v/big", len(BIG) // 2)
    with daemon.connect(peer_uid=ME) as client:
        with pytest.raises(errors.NotAuthenticError, match="big"):
            client.catalogue.export("bent", Destination(tmp_path / "out"), plain=True)
        assert not list(tmp_path.iterdir())
        # sealed it is what lies there; whoever imports it notices
        client.catalogue.export("bent", Destination(tmp_path / "out"))


def test_only_files_that_the_record_names_leave_the_store(daemon: Daemon, tmp_path: Path) -> None:
    generation = daemon.store / "going/1/g/1"
    (generation / "c/v/planted").write_bytes(b"plain words")
    (generation / "secrets.txt").write_bytes(b"plain words")
    with daemon.connect(peer_uid=ME) as client:
        client.catalogue.export("going", Destination(tmp_path / "out"))
        found = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
        assert found == ["big", "last", MANIFEST]
        (generation / "c/v/last").unlink()
        (generation / "c/v/last").symlink_to("/etc/hostname")
        with pytest.raises(errors.NotAuthenticError, match="link"):
            client.catalogue.export("going", Destination(tmp_path / "again"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_who_exported_what_is_in_the_audit_log_before_a_byte_leaves(daemon: Daemon) -> None:
    request = pb.ExportRequest(package=package("m"), plain=True)
    with grpc_door(daemon) as door:
        answers = door.packages.Export(request)
        assert next(answers).HasField("begin")
        files = sorted((daemon.folder / "state/audit").glob("*.jsonl"))
        found = [json.loads(line) for line in files[-1].read_bytes().splitlines()][-1]
        answers.cancel()
    assert (found["right"], found["package"], found["version"]) == ("export-plain", "m", "1")
    assert (found["generation"], found["outcome"], found["uid"]) == (1, "done", ME)
