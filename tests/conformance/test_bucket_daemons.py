"""Daemons on one bucket, through their own doors: what one does, the other serves."""

from __future__ import annotations

import os
import ssl
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trustme
from support import disk, pages
from support.buckets import SECRET, Trouble, no_trouble
from support.daemon import Daemon, answer, run_command
from support.onnx_bytes import TINY, model_around
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage, varied

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SealcarError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.buckets import BucketServer

REFRESH: Final = 0.3
BIG: Final = varied(20 << 20)
# noise, so that no run of it is anywhere by chance
CANARY: Final = os.urandom(192 << 10)
SETTINGS: Final = {"store.refresh": f"{REFRESH}", "store.patience": "5s"}


class Pair:
    """Two daemons that have one store, and their bucket."""

    def __init__(self, folder: Path, server: BucketServer) -> None:
        self.server, self.bucket = server, server.make()
        options = server.options(self.bucket)
        self.one = Daemon(folder / "one", settings=SETTINGS, init=options)
        same = f"--key-uri=file:{self.one.folder / 'kek'}"
        self.two = Daemon(folder / "two", settings=SETTINGS, init=(*options, same))


@pytest.fixture(scope="module")
def pair(s3_server: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    for name in ("one", "two"):
        (folder / name).mkdir()
    made = Pair(folder, s3_server)
    with made.one, made.two:
        yield made


class Behind:
    """A daemon whose way to its bucket has TLS, and can be troubled."""

    def __init__(self, folder: Path, server: BucketServer) -> None:
        self.server, self.bucket = server, server.make()
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.trouble = Trouble(server.port, context)
        options = server.options(self.bucket, self.trouble.port, folder / "ca.pem")
        self.daemon = Daemon(folder, settings={**SETTINGS, "store.patience": "1s"}, init=options)

    def payloads(self) -> list[str]:
        return [key for key in self.server.keys(self.bucket) if "/p/" in key]


@pytest.fixture(scope="module")
def behind(s3_server: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    made = Behind(tmp_path_factory.mktemp("behind"), s3_server)
    try:
        made.daemon.start()
        yield made
    finally:
        made.daemon.kill()
        made.trouble.close()


def put(daemon: Daemon, name: str, **blobs: bytes) -> None:
    payloads = [PlannedBytes("model.onnx", "model", TINY)]
    payloads += [PlannedBytes(each, "blob", data) for each, data in blobs.items()]
    with daemon.connect() as client:
        client.catalogue.import_(PlannedPackage(tuple(payloads), name))


def read(daemon: Daemon, name: str, variant: str = VARIANT, payload: str = "model.onnx") -> bytes:
    with daemon.connect() as client:
        return client.scope(name, COMPONENT, variant).read(payload)


def add(daemon: Daemon, name: str, variant: str, data: bytes = TINY) -> int:
    with daemon.connect() as client, client.begin(name, COMPONENT, variant) as transaction:
        transaction.write("model.onnx", model_around(data), "model")
        return transaction.commit().generation


def soon(act: Callable[[], Any]) -> Any:  # noqa: ANN401  (what it returns)
    """Return what it returns once it succeeds, which has to be soon."""
    end = time.monotonic() + 20
    while True:
        try:
            return act()
        except (SealcarError, AssertionError):
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def reads(daemon: Daemon, name: str, data: bytes) -> None:
    """Make sure of what a payload is."""
    assert read(daemon, name, payload="blob") == data


def gone(daemon: Daemon, name: str) -> None:
    """Make sure that nobody may know that there was such a package."""
    try:
        read(daemon, name)
    except NotFoundError:
        return
    raise AssertionError(f"{name} is there")


def test_what_one_imports_the_other_lists_and_serves(pair: Pair) -> None:
    put(pair.one, "big", blob=BIG)
    assert read(pair.two, "big", payload="blob") == BIG
    assert read(pair.one, "big", payload="blob") == BIG
    listed = answer("ls", "--socket", str(pair.two.socket))
    assert [each["name"] for each in listed["packages"]] == ["big"]
    for daemon in (pair.one, pair.two):
        steps = {line["step"]: line["state"] for line in daemon.log if "step" in line}
        assert {steps["landlock"], steps["seccomp"]} == {"on"}
        assert daemon.metric("sealcar_bucket_requests_total", kind="read", outcome="ok") > 0
        assert daemon.metric("sealcar_bucket_bytes_total", direction="in") >= len(BIG)


def test_two_that_publish_the_same_variant_at_once_and_others_beside(pair: Pair) -> None:
    put(pair.one, "raced")
    start = threading.Barrier(2)
    outcomes: dict[tuple[str, str], str] = {}

    def write(name: str, daemon: Daemon) -> None:
        with daemon.connect() as client:
            written = {
                variant: client.begin("raced", COMPONENT, variant) for variant in ("same", name)
            }
            for transaction in written.values():
                transaction.write("model.onnx", model_around(name.encode()), "model")
            start.wait(20)
            for variant, transaction in written.items():
                try:
                    transaction.commit()
                    outcomes[name, variant] = "done"
                except ConflictError:
                    outcomes[name, variant] = "conflict"
                    transaction.abort()

    threads = [
        threading.Thread(target=write, args=args) for args in (("one", pair.one), ("two", pair.two))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes.values()) == ["conflict", "done", "done", "done"]
    winner = next(name for (name, of), how in outcomes.items() if (of, how) == ("same", "done"))
    for daemon in (pair.one, pair.two):
        for name in ("one", "two"):
            assert soon(partial(read, daemon, "raced", name)) == model_around(name.encode())
        assert read(daemon, "raced", "same") == model_around(winner.encode())


def test_keys_that_one_rotates_and_packages_that_it_moves_are_the_others_too(pair: Pair) -> None:
    put(pair.one, "rotated")
    assert read(pair.two, "rotated") == TINY
    admin = ("--admin", str(pair.one.admin))
    assert answer("keys", "rotate", *admin)["version"] == "2"
    moved = answer("keys", "rewrap", *admin)
    assert moved["store_key"]
    assert not moved["failures"]

    def noticed() -> None:
        with pair.two.connect() as client:
            assert client.catalogue.get("rotated").kek_version == "2"

    soon(noticed)
    assert read(pair.two, "rotated") == TINY
    # it has the store's key in its new wrap, and makes packages under it
    put(pair.two, "later")
    assert soon(lambda: read(pair.one, "later")) == TINY


def test_what_one_shreds_the_other_serves_no_longer(pair: Pair) -> None:
    put(pair.one, "shredded")
    assert read(pair.two, "shredded") == TINY
    answer("keys", "shred", "shredded", "--yes", "--admin", str(pair.one.admin))

    soon(lambda: gone(pair.two, "shredded"))
    left = [key for key in pair.server.keys(pair.bucket) if "/shredded/" in key]
    assert all(key.endswith(("/tombstone", "/current", "/manifest.json")) for key in left)
    assert not any(
        pair.server.content(pair.bucket, key) for key in left if key.endswith("manifest.json")
    )
    with pytest.raises(AlreadyExistsError):
        put(pair.two, "shredded")


def test_a_package_moves_from_a_bucket_to_a_directory_and_back(pair: Pair, tmp_path: Path) -> None:
    put(pair.one, "travels", blob=CANARY)
    same = f"--key-uri=file:{pair.one.folder / 'kek'}"
    with Daemon(tmp_path, init=(same,)) as local:
        there = tmp_path / "there"
        exported = run_command("export", "travels", str(there), "--socket", str(pair.two.socket))
        assert exported.returncode == 0, exported.stderr
        answer("import", str(there), "--socket", str(local.socket))
        assert read(local, "travels", payload="blob") == CANARY
        put(local, "back", blob=CANARY)
        back = tmp_path / "back"
        answer("export", "back", str(back), "--socket", str(local.socket))
    answer("import", str(back), "--socket", str(pair.two.socket))
    assert soon(partial(read, pair.one, "back", payload="blob")) == CANARY


def test_a_version_that_one_removes_is_no_rollback_for_the_other(pair: Pair) -> None:
    put(pair.one, "removed")
    assert read(pair.two, "removed") == TINY
    answer("rm", "removed@1", "--yes", "--socket", str(pair.one.socket))
    soon(lambda: gone(pair.two, "removed"))
    for data in (b"anew", b"once more"):
        put(pair.two, "removed", blob=data)
        soon(partial(reads, pair.one, "removed", data))
        answer("rm", "removed@1", "--yes", "--socket", str(pair.two.socket))


def test_no_plaintext_and_no_key_is_in_bucket_cache_or_log(pair: Pair) -> None:
    put(pair.one, "canary", blob=CANARY)
    add(pair.two, "canary", "compiled", CANARY)
    assert read(pair.two, "canary", payload="blob") == CANARY
    objects = {key: pair.server.content(pair.bucket, key) for key in pair.server.keys(pair.bucket)}
    secret = SECRET.encode()
    assert len(objects) > 5
    assert not [key for key, data in objects.items() if CANARY[:64] in data]
    for daemon in (pair.one, pair.two):
        files = [path for path in disk.files_below(daemon.folder) if not path.endswith("/kek")]
        assert any("/cache/" in path for path in files)
        assert disk.runs(files, {"canary": CANARY}) == []
        assert secret not in daemon.log_path.read_bytes()
        for path in files:
            with open(path, "rb") as file:  # noqa: PTH123  (disk's own paths)
                assert secret not in file.read()


def test_a_daemon_that_is_killed_while_it_publishes_leaves_what_was_there(
    behind: Behind,
) -> None:
    daemon, trouble = behind.daemon, behind.trouble
    put(daemon, "kept")

    def wanted(method: str, path: str) -> str:
        if method == "PUT" and path.endswith("/g/2/manifest.json"):
            daemon.kill()
            return "503"
        return ""

    trouble.wanted = wanted
    with pytest.raises(SealcarError):
        add(daemon, "kept", "compiled")
    trouble.wanted = no_trouble
    assert len(behind.payloads()) == 2
    daemon.start()
    assert read(daemon, "kept") == TINY
    assert not any((daemon.store / ".staging").iterdir())
    assert add(daemon, "kept", "compiled") == 2
    # what the dead one uploaded is too young to be removed: somebody may be at it
    answer("prune", "--socket", str(daemon.socket))
    assert len(behind.payloads()) == 3


def test_a_bucket_that_cant_be_reached_is_told_and_what_is_here_is_served(behind: Behind) -> None:
    daemon, trouble = behind.daemon, behind.trouble
    put(daemon, "here", blob=CANARY)
    with daemon.connect() as client:
        scope = client.scope("here", COMPONENT, VARIANT)
        assert scope.read("blob") == CANARY
        assert _bucket(daemon, 0) == "ok"
        trouble.wanted = lambda _method, _path: "503"
        try:
            assert scope.read("blob") == CANARY
            assert _bucket(daemon, 1) == "problem"
            status = answer("status", "--socket", str(daemon.socket), "--admin", str(daemon.admin))
            assert "503" in status["store"]["failure"]
            with pytest.raises(StorageError, match="answers 503") as caught:
                client.scope("kept", COMPONENT, VARIANT).read("model.onnx")
            # where it is, clients aren't told
            assert behind.bucket not in str(caught.value)
            assert "s3:" not in str(caught.value)
            assert daemon.metric("sealcar_bucket_requests_total", kind="read", outcome="failed") > 0
        finally:
            trouble.wanted = no_trouble
        assert client.scope("here", COMPONENT, VARIANT).read("blob") == CANARY
        assert _bucket(daemon, 0) == "ok"


def _bucket(daemon: Daemon, code: int) -> str:
    admin = ("--socket", str(daemon.socket), "--admin", str(daemon.admin))
    found = answer("doctor", *admin, code=code)["findings"]
    return next(str(each["state"]) for each in found if each["check"] == "bucket")


def test_the_commands_for_a_bucket_that_the_page_shows_work(
    s3_server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bucket = s3_server.make()
    # the page is about AWS
    place, *here = s3_server.options(bucket)
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    (block,) = (each.text for each in pages.blocks(page) if each.language == "sh")
    lines = [line for line in block.splitlines() if not line.startswith("#")]
    assert len(lines) == 2
    for line in lines:
        text = line.replace("s3://models/sealcar", place.partition("=")[2])
        text = text.replace("/etc/sealcar/key/", f"{tmp_path}/node-1/")
        _, command, *options = text.replace("--bucket-region eu-central-1", "").split()
        done = run_command(command, *options, *here)
        assert done.returncode == 0, done.stderr
    assert "founded" not in done.stdout
    assert "joined" in done.stdout
    # without the key that there is, nobody joins
    alone = run_command("init", "node-3", place, *here)
    assert "--key-uri" in alone.stderr
    assert not (tmp_path / "node-3").exists()
