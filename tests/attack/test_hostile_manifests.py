"""A store that others write: what shows, validates and reseals packages neither leaks nor falls."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, run_command
from support.grpcdoor import grpc_door, package
from support.onnx_bytes import model_around
from support.payload_packages import PACKAGE, PlannedBytes, PlannedPackage
from support.services import ME, MODEL, Running
from support.tampering import edit_manifest

from sealcar.errors import DamagedError, KeyRefusedError, NotFoundError, SealcarError
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.service.findings import MOST
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORDS = b"what nobody may see while the daemon is locked"
SECRET = model_around(WORDS)


def test_a_locked_daemon_gives_neither_plaintext_nor_a_key(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.connect() as client:
            client.catalogue.import_(PlannedPackage((PlannedBytes("model.onnx", "model", SECRET),)))
        assert run_command("lock", "--admin", str(daemon.admin)).returncode == 0
        with grpc_door(daemon) as door:
            answers: list[Any] = [
                door.packages.Get(pb.GetRequest(package=package(PACKAGE))),
                door.packages.List(pb.ListRequest()),
                door.packages.Validate(pb.ValidateRequest(package=package(PACKAGE))),
            ]
        assert [getattr(each, "verified", False) for each in answers] == [False] * 3
        told = b"".join(each.SerializeToString() for each in answers)
        told += daemon.log_path.read_bytes()
        lines = (daemon.folder / "kek").read_text().splitlines()
        (key,) = [line.split()[1] for line in lines if line.startswith("1 ")]
        for secret in (SECRET, WORDS, key.encode(), bytes.fromhex(key)):
            assert secret not in told
            assert secret[:16] not in told


def hostile_strings(manifest: dict[str, Any]) -> None:
    variants = manifest["components"]["det"]["variants"]
    variants["\x1b[2J\u202e/~1"] = {"variant_directory": "\x1b]0;x\x07"}


def a_hundred_thousand_variants(manifest: dict[str, Any]) -> None:
    manifest["components"]["det"]["variants"] |= {f"v{at}": {} for at in range(100_000)}


def components_elsewhere(manifest: dict[str, Any]) -> None:
    manifest["components"] = {f"c{at}": "/etc/passwd" for at in range(1000)}


def deep(manifest: dict[str, Any]) -> None:
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"a": value}
    manifest["components"]["det"]["variants"]["onnx"]["executor_info"]["ort"] = value


OURS = (DamagedError, KeyRefusedError, NotFoundError)
CHANGES: list[Callable[[dict[str, Any]], None]] = [
    hostile_strings,
    a_hundred_thousand_variants,
    components_elsewhere,
    deep,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_hostile_manifest_is_told_soon_and_never_sealed(
    root: Path, generation: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    edit_manifest(generation, change)
    with Running(root) as running:
        begun = time.monotonic()
        found = running.service.validator.validate(ME, "ocr").findings
        assert found
        assert len(found) <= MOST
        assert time.monotonic() - begun < 30
        assert not [each for each in found if "root:" in each.message]
        digest = hashlib.sha256((generation / "manifest.json").read_bytes()).digest()
        with pytest.raises(SealcarError):
            running.service.resealer.reseal(ME, "ocr", "", digest)
        # the others are served meanwhile and afterwards
        assert running.read(ScopeKey("det-only", "", "det", "onnx")) == MODEL


@pytest.mark.parametrize("kind", ["pipe", "directory", "loop"])
def test_what_is_no_file_is_a_finding_and_holds_nobody_up(
    root: Path, generation: Path, kind: str
) -> None:
    file = generation / "det/onnx/model.onnx"
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    else:
        file.symlink_to("model.onnx")
    with Running(root) as running:
        (found,) = running.service.validator.validate(ME, "ocr").findings
    assert (found.code, found.place) == ("confinement", "det/onnx/model.onnx")


@pytest.mark.parametrize("locked", [False, True])
def test_bytes_changed_at_random_end_in_our_own_errors(
    root: Path, generation: Path, *, locked: bool
) -> None:
    path = generation / "manifest.json"
    whole = path.read_bytes()
    chance = random.Random(7)  # noqa: S311  (the same every time)
    with Running(root) as running:
        if locked:
            running.service.keys.lock()
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])
            for look in (
                lambda: running.looking.get(ME, "ocr", "1", 1),
                lambda: running.service.validator.validate(ME, "ocr", "1", 1),
            ):
                with suppress(*OURS):
                    assert look()


def test_a_reseal_that_finds_its_number_taken_leaves_nothing(root: Path, generation: Path) -> None:
    edit_manifest(generation, lambda manifest: manifest.update(package_name="wanted"))
    (generation.parent / "2").mkdir()
    (generation.parent / "2" / "in the way").write_bytes(b"")
    with Running(root) as running:
        seen = running.service.resealer.reseal(ME, "ocr", "", None)
        with pytest.raises(SealcarError, match="published by another"):
            running.service.resealer.reseal(ME, "ocr", "", seen.manifest_sha256)
        assert not list((root / "store/.staging").iterdir())
    assert json.loads((generation / "manifest.json").read_bytes())["package_name"] == "wanted"
