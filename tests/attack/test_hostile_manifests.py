"""A store that others write: what shows, validates and reseals packages neither leaks nor falls."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import Daemon, run_command
from support.grpcdoor import grpc_door, package
from support.onnx_bytes import model_around
from support.payload_packages import PACKAGE, PlannedBytes, PlannedPackage
from support.services import ME, MODEL, Running
from support.tampering import edit_manifest

from sealcar.errors import (
    DamagedError,
    InvalidPackageError,
    KeyRefusedError,
    NotFoundError,
    SealcarError,
    WrongStateError,
)
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
        # for what it says, or because nothing of it is what the record covers
        with pytest.raises((InvalidPackageError, DamagedError, WrongStateError)):
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
        outcomes: set[str] = set()
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])
            for look in (
                lambda: running.looking.get(ME, "ocr", "1", 1),
                lambda: running.service.validator.validate(ME, "ocr", "1", 1),
            ):
                try:
                    assert look()
                    outcomes.add("told")
                except OURS as error:
                    outcomes.add(type(error).__name__)
        # both were met: what can still be looked at, and what can't
        assert {"told"} < outcomes


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


VALUES: list[Any] = [None, True, 0, -1, 1.5, "", "x", "../x", "a/b", "\0", [], {}, {"a": {}}, ["x"]]
NAMES = ["ep", "variant_directory", "executor_info", "ort", "sealcar", "variants", "new", "a/b", ""]


def edited(value: Any, chance: random.Random) -> Any:  # noqa: ANN401  (JSON)
    """Return a manifest with one thing in it changed, added, taken out or moved."""
    if not isinstance(value, dict) or not value or chance.random() < 0.15:
        return chance.choice(VALUES)
    name = chance.choice(list(value))
    if name == "sealcar" or chance.random() < 0.7:
        return {**value, name: edited(value[name], chance)}
    rest = {key: each for key, each in value.items() if key != name}
    if chance.random() < 0.3:
        return rest
    if chance.random() < 0.5:
        return {**rest, name: value[name]}
    return {**value, chance.choice(NAMES): chance.choice([*VALUES, value[name]])}


def test_what_is_resealed_opens_and_what_cant_be_is_refused_by_our_own_errors(root: Path) -> None:
    chance = random.Random(11)  # noqa: S311  (the same every time)
    scopes = (("det", "onnx"), ("det", "qnn"), ("rec", "onnx"))
    payloads = {(*scope, "model.onnx"): b"small" for scope in scopes}
    ended: dict[str, int] = {}
    with Running(root) as running:
        for at in range(150):
            version = f"v{at}"
            running.import_(version=version, payloads=payloads)
            path = running.generation(version=version) / "manifest.json"
            manifest = json.loads(path.read_bytes())
            manifest["components"] = edited(manifest["components"], chance)
            if chance.random() < 0.2:
                manifest["package_version"] = chance.choice(VALUES)
            path.write_text(json.dumps(manifest))
            digest = hashlib.sha256(path.read_bytes()).digest()
            try:
                running.service.resealer.reseal(ME, "ocr", version, digest)
            except (InvalidPackageError, WrongStateError) as error:
                ended[type(error).__name__] = ended.get(type(error).__name__, 0) + 1
                continue
            ended["sealed"] = ended.get("sealed", 0) + 1
            found = running.service.validator.validate(ME, "ocr", version).findings
            assert [each for each in found if each.is_error] == []
            running.packages.verify(ME, "ocr", version, 0, lambda *_: None)
            for variant in running.looking.get(ME, "ocr", version).variants:
                scope = ScopeKey("ocr", version, variant.component, variant.variant)
                assert running.read(scope) == b"small"
    assert min(ended.values()) > 5
    assert len(ended) == 3
