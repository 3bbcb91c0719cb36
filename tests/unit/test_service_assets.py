"""Shared assets come in checked, are sealed under keys of their own, and stored once."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.asset_packages import (
    CONTEXT,
    VOCABULARY,
    WEIGHTS,
    AssetPackage,
    asset_folders,
    ort,
    sealed_uri,
    uri_of,
    weights_in,
)
from support.services import KEK, ME, MODEL, SOMEBODY, Running

from sealcar import modelpackage
from sealcar.errors import (
    ConflictError,
    InvalidNameError,
    InvalidPackageError,
    InvalidRequestError,
    NotFoundError,
)
from sealcar.modelpackage import hash_directory
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.sealing import record
from sealcar_server.service.asset_index import AssetEntry, AssetIndex
from sealcar_server.service.rewrapping import Wanted
from sealcar_server.service.store_key import StoreKey
from sealcar_server.service.values import CommitValues, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar_server.sealing.values import SealRecord

SCOPE = ScopeKey("ocr", "", "det", "onnx")
PLAIN = uri_of(VOCABULARY)
LARGE = {"weights.bin": MODEL}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


def manifest_of(generation: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((generation / "manifest.json").read_bytes())
    return loaded


def record_of(generation: Path) -> SealRecord:
    return record.parse(record.open_envelope(manifest_of(generation))[0])


def names_of(running: Running, scope: ScopeKey = SCOPE) -> list[str]:
    return [payload.name for payload in running.payloads.open(ME, scope).variant.payloads]


def info_of(running: Running, scope: ScopeKey = SCOPE) -> dict[str, Any]:
    text = running.payloads.open(ME, scope).variant.executor_info_json
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def inodes(generation: Path) -> list[int]:
    files = (path for path in (generation / "shared_assets").rglob("*") if path.is_file())
    return sorted(path.stat().st_ino for path in files)


def verified(running: Running, name: str = "ocr", version: str = "1") -> int:
    return running.packages.verify(ME, name, version, 0, lambda *_: None).payloads


def nothing_left(running: Running) -> bool:
    return not any((running.store_path / ".staging").iterdir())


def test_an_asset_is_named_by_its_ciphertext_and_read_through_the_variant(running: Running) -> None:
    AssetPackage.with_weights({**VOCABULARY, **LARGE}).import_into(running)
    (folder,) = asset_folders(running.generation())
    uri = sealed_uri(folder)
    assert hash_directory(folder) == uri
    assert names_of(running) == [
        "model.onnx",
        f"{uri}/vocab.txt",
        f"{uri}/deep/er/merges",
        f"{uri}/weights.bin",
    ]
    assert running.read(SCOPE, f"{uri}/deep/er/merges") == VOCABULARY["deep/er/merges"]
    assert running.read(SCOPE, f"{uri}/weights.bin") == MODEL
    assert VOCABULARY["vocab.txt"] not in (folder / "vocab.txt").read_bytes()
    assert verified(running) == 4


def test_references_are_rewritten_in_the_three_places_that_ort_follows_and_nowhere_else(
    running: Running,
) -> None:
    options = {WEIGHTS: PLAIN, CONTEXT: f"{PLAIN}/deep/er/merges", "ep.other": PLAIN}
    info = {**ort(f"{PLAIN}/vocab.txt", **options), "genai": {"tokenizer": f"{PLAIN}/vocab.txt"}}
    info["ort"]["model"] = PLAIN
    package = AssetPackage({PLAIN: VOCABULARY}, {("det", "onnx"): info})
    package.import_into(running)
    uri = sealed_uri(asset_folders(running.generation())[0])
    found = info_of(running)
    assert found["ort"] == {
        "model_file": f"{uri}/vocab.txt",
        "session_options": {
            WEIGHTS: uri,
            CONTEXT: f"{uri}/deep/er/merges",
            "ep.other": PLAIN,
        },
        "model": PLAIN,
    }
    assert found["genai"] == info["genai"]


def test_the_table_of_assets_is_not_carried_on(running: Running) -> None:
    info = {("det", "onnx"): weights_in(PLAIN)}
    top = {"shared_assets": {PLAIN: "any/where"}}
    AssetPackage({PLAIN: VOCABULARY}, info, top=top).import_into(running)
    assert "shared_assets" not in manifest_of(running.generation())


def test_a_variant_may_have_nothing_but_an_asset(running: Running) -> None:
    files = {"model.onnx": b"the model"}
    info = {("det", "onnx"): ort(f"{uri_of(files)}/model.onnx")}
    AssetPackage({uri_of(files): files}, info, bare=(("det", "onnx"),)).import_into(running)
    (name,) = names_of(running)
    assert running.read(SCOPE, name) == b"the model"
    assert (running.generation() / "det/onnx").is_dir(), "ORT refuses a variant without one"
    running.add_variant(ScopeKey("ocr", "", "det", "qnn"))
    assert (running.generation(number=2) / "det/onnx").is_dir()


def test_an_asset_is_read_only_through_a_variant_that_refers_to_it(running: Running) -> None:
    info = {("det", "onnx"): weights_in(PLAIN), ("rec", "onnx"): ort()}
    AssetPackage({PLAIN: VOCABULARY}, info).import_into(running)
    uri = sealed_uri(asset_folders(running.generation())[0])
    other = ScopeKey("ocr", "", "rec", "onnx")
    assert names_of(running, other) == ["model.onnx"]
    with pytest.raises(NotFoundError, match="doesn't exist"):
        running.read(other, f"{uri}/vocab.txt")


def test_an_asset_that_nothing_refers_to_is_sealed_and_verified_all_the_same(
    running: Running,
) -> None:
    AssetPackage({PLAIN: VOCABULARY}, {("det", "onnx"): ort()}).import_into(running)
    assert len(asset_folders(running.generation())) == 1
    assert names_of(running) == ["model.onnx"]
    assert verified(running) == 3


@pytest.mark.parametrize(
    ("package", "message"),
    [
        (
            AssetPackage({uri_of(LARGE): VOCABULARY}, {("det", "onnx"): ort()}),
            "aren't those it names",
        ),
        (AssetPackage({}, {("det", "onnx"): weights_in(PLAIN)}), "executor_info/ort"),
        (
            AssetPackage(
                {}, {("det", "onnx"): ort()}, top={"shared_assets": {PLAIN: "assets/vocab"}}
            ),
            "no file of it came",
        ),
        (AssetPackage({"sha256:0": VOCABULARY}, {("det", "onnx"): ort()}), "is no shared asset"),
        (
            AssetPackage({PLAIN.upper(): VOCABULARY}, {("det", "onnx"): ort()}),
            "is no shared asset",
        ),
        (AssetPackage({}, {("det", "onnx"): ort()}, bare=(("det", "onnx"),)), "has no payload"),
    ],
)
def test_assets_that_are_not_what_the_manifest_and_uri_say_are_refused(
    running: Running, package: AssetPackage, message: str
) -> None:
    with pytest.raises(InvalidPackageError, match=message):
        package.import_into(running)
    assert nothing_left(running)
    assert not (running.store_path / "assets").exists()


@pytest.mark.parametrize("name", [f"{PLAIN}/vocab.txt", PLAIN])
def test_no_payload_of_a_variant_can_be_taken_for_one_of_an_asset(
    running: Running, name: str
) -> None:
    running.import_()
    with pytest.raises(InvalidNameError, match="one of a shared asset"):
        running.begin(SCOPE).create(name, "other")


@pytest.mark.parametrize("name", ["/".join(["d"] * 16), f"{'n' * 200}/" * 4 + "m" * 190])
def test_a_name_that_nobody_could_ask_for_is_refused(running: Running, name: str) -> None:
    with pytest.raises(InvalidNameError):
        AssetPackage.with_weights({name: b"x"}).import_into(running)
    assert nothing_left(running)


def test_equal_assets_of_two_packages_are_one_file_and_both_are_readable(running: Running) -> None:
    package = AssetPackage.with_weights({**VOCABULARY, **LARGE})
    package.import_into(running, "ocr")
    package.import_into(running, "other")
    first, second = running.generation("ocr"), running.generation("other")
    assert inodes(first) == inodes(second)
    assert asset_folders(first)[0].name == asset_folders(second)[0].name
    one, two = record_of(first).assets[0], record_of(second).assets[0]
    assert one.asset_id == two.asset_id
    assert one.wrapped != two.wrapped
    assert [p.digest for p in one.payloads] != [p.digest for p in two.payloads]
    for name in ("ocr", "other"):
        scope = ScopeKey(name, "", "det", "onnx")
        uri = sealed_uri(asset_folders(first)[0])
        assert running.read(scope, f"{uri}/weights.bin") == MODEL
        assert verified(running, name) == 4
    assert nothing_left(running)


def test_imports_at_once_of_equal_assets_all_succeed(running: Running) -> None:
    names = [f"p{number}" for number in range(6)]
    package = AssetPackage.with_weights({**VOCABULARY, **LARGE})
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name: package.import_into(running, name), names))
    for name in names:
        assert verified(running, name) == 4
    package.import_into(running, "last")
    shared = {inode for name in names for inode in inodes(running.generation(name))}
    assert set(inodes(running.generation("last"))) <= shared
    assert nothing_left(running)


def test_the_format_s_own_checks_find_nothing_wrong(running: Running) -> None:
    AssetPackage.with_weights().import_into(running)
    with modelpackage.open(running.generation()) as package:
        report = modelpackage.validate(package)
    assert (report.errors, report.warnings) == ((), ())


def test_two_versions_of_a_package_share_too(running: Running) -> None:
    AssetPackage.with_weights().import_into(running, version="1")
    AssetPackage.with_weights().import_into(running, version="2")
    assert inodes(running.generation()) == inodes(running.generation(version="2"))


def test_what_one_shares_is_not_lost_when_the_other_is_shredded(running: Running) -> None:
    AssetPackage.with_weights().import_into(running, "other")
    AssetPackage.with_weights().import_into(running, "ocr")
    running.service.keys.shred("other")
    uri = sealed_uri(asset_folders(running.generation())[0])
    assert running.read(SCOPE, f"{uri}/vocab.txt") == VOCABULARY["vocab.txt"]
    assert verified(running) == 3


def test_packages_under_different_keys_share_nothing(tmp_path: Path) -> None:
    with Running(tmp_path, more_keys=("other",)) as running:
        AssetPackage.with_weights().import_into(running, "ocr")
        AssetPackage.with_weights().import_into(running, "two", kek="other")
        AssetPackage.with_weights().import_into(running, "three", kek="other")
        places = [running.generation(name) for name in ("ocr", "two", "three")]
        assert not set(inodes(places[0])) & set(inodes(places[1]))
        assert asset_folders(places[0])[0].name != asset_folders(places[1])[0].name
        assert inodes(places[1]) == inodes(places[2])


def test_nothing_in_the_store_tells_what_is_in_an_asset(running: Running) -> None:
    AssetPackage.with_weights().import_into(running)
    looked = 0
    for path in running.store_path.rglob("*"):
        assert PLAIN[7:] not in str(path)
        if path.is_file():
            data = path.read_bytes()
            texts = [data]
            if path.parent.name == "assets":
                envelope = json.loads(data)
                texts.append(base64.urlsafe_b64decode(envelope["record"] + "=="))
                looked += 1
            if path.name == "manifest.json":
                texts.append(record.open_envelope(json.loads(data))[0])
            for text in texts:
                assert PLAIN[7:].encode() not in text
                assert bytes.fromhex(PLAIN[7:]) not in text
    assert looked == 1


def test_an_entry_of_what_is_gone_is_replaced(running: Running) -> None:
    package = AssetPackage.with_weights()
    package.import_into(running, "gone")
    (entry,) = (running.store_path / "assets").iterdir()
    before = entry.read_bytes()
    shutil.rmtree(running.store_path / "gone")
    package.import_into(running, "ocr")
    assert entry.read_bytes() != before
    package.import_into(running, "other")
    assert inodes(running.generation("ocr")) == inodes(running.generation("other"))


def test_files_are_not_shared_with_a_package_that_lost_or_damaged_them(running: Running) -> None:
    package = AssetPackage.with_weights()
    package.import_into(running, "damaged")
    victim = asset_folders(running.generation("damaged"))[0] / "vocab.txt"
    victim.chmod(0o600)
    data = bytearray(victim.read_bytes())
    data[60] ^= 1
    victim.write_bytes(data)
    package.import_into(running, "ocr")
    assert not set(inodes(running.generation("ocr"))) & set(inodes(running.generation("damaged")))
    assert verified(running) == 3
    victim = asset_folders(running.generation("ocr"))[0] / "vocab.txt"
    victim.unlink()
    package.import_into(running, "whole")
    assert verified(running, "whole") == 3
    assert nothing_left(running)


def test_an_asset_of_the_same_files_with_other_content_is_not_shared(running: Running) -> None:
    AssetPackage.with_weights({"a": b"x", "b": b"y"}).import_into(running, "ocr")
    AssetPackage.with_weights({"a": b"y", "b": b"x"}).import_into(running, "other")
    assert not set(inodes(running.generation())) & set(inodes(running.generation("other")))


def misled(running: Running, alias: str, uri: str) -> None:
    """Have the index say that an asset with this plaintext is the one that package ocr has."""
    (folder,) = asset_folders(running.generation())
    index = AssetIndex(running.store, StoreKey(running.store, running.keyring))
    index.put(alias, uri, AssetEntry("ocr", "1", 1, sealed_uri(folder)))


@pytest.mark.parametrize(
    "files",
    [{"a": b"y", "b": b"x"}, {"a": b"x", "b": b"longer"}, {"a": b"x"}, {"a": b"x", "c": b"y"}],
    ids=["other content", "other size", "fewer files", "other names"],
)
def test_what_the_index_wrongly_calls_equal_is_not_shared(
    running: Running, files: dict[str, bytes]
) -> None:
    AssetPackage.with_weights({"a": b"x", "b": b"y"}).import_into(running, "ocr")
    misled(running, KEK, uri_of(files))
    AssetPackage.with_weights(files).import_into(running, "other")
    assert not set(inodes(running.generation())) & set(inodes(running.generation("other")))
    (folder,) = asset_folders(running.generation("other"))
    scope = ScopeKey("other", "", "det", "onnx")
    for name, data in files.items():
        assert running.read(scope, f"{sealed_uri(folder)}/{name}") == data
    assert verified(running, "other") == 1 + len(files)
    assert nothing_left(running)


def test_an_index_that_names_a_package_under_another_key_shares_nothing(tmp_path: Path) -> None:
    with Running(tmp_path, more_keys=("second",)) as running:
        AssetPackage.with_weights().import_into(running, "ocr")
        misled(running, "second", PLAIN)
        AssetPackage.with_weights().import_into(running, "other", kek="second")
        assert not set(inodes(running.generation())) & set(inodes(running.generation("other")))
        assert verified(running, "other") == 3


def test_every_later_generation_has_the_same_files(running: Running) -> None:
    AssetPackage.with_weights().import_into(running)
    running.add_variant(ScopeKey("ocr", "", "det", "qnn"))
    running.service.keys.rotate()
    running.service.keys.rewrap(Wanted(), lambda *_: None)
    places = [running.generation(number=number) for number in (1, 2, 3)]
    assert inodes(places[0]) == inodes(places[1]) == inodes(places[2])
    uri = sealed_uri(asset_folders(places[2])[0])
    assert running.read(SCOPE, f"{uri}/vocab.txt") == VOCABULARY["vocab.txt"]
    assert verified(running) == 4


def commit(running: Running, scope: ScopeKey, info: dict[str, Any]) -> ScopeKey:
    transaction = running.begin(scope)
    running.write(transaction, "model.onnx", b"compiled")
    return running.commit(transaction, executor_info_json=json.dumps(info))


def test_a_written_variant_may_refer_to_an_asset_of_the_package(running: Running) -> None:
    AssetPackage.with_weights().import_into(running)
    uri = sealed_uri(asset_folders(running.generation())[0])
    scope = ScopeKey("ocr", "", "det", "qnn")
    commit(running, scope, weights_in(uri))
    assert f"{uri}/vocab.txt" in names_of(running, scope)
    assert running.read(scope, f"{uri}/vocab.txt") == VOCABULARY["vocab.txt"]


def test_a_commit_that_is_tried_again_carries_assets_on_each_time(running: Running) -> None:
    AssetPackage.with_weights({**VOCABULARY, **LARGE}).import_into(running)
    uri = sealed_uri(asset_folders(running.generation())[0])
    slow = ScopeKey("ocr", "", "det", "slow")
    transaction = running.begin(slow)
    running.write(transaction, "model.onnx", b"compiled")
    values = json.dumps(weights_in(uri))
    in_its_way = running.generation(number=2)
    in_its_way.mkdir()
    (in_its_way / "no manifest").touch()
    with pytest.raises(ConflictError, match="others published 16 times"):
        running.commit(transaction, executor_info_json=values)
    shutil.rmtree(in_its_way)
    running.commit(transaction, executor_info_json=values)
    assert inodes(running.generation()) == inodes(running.generation(number=2))
    assert running.read(slow, f"{uri}/weights.bin") == MODEL


def test_a_written_variant_refers_to_no_asset_that_is_not_there(running: Running) -> None:
    AssetPackage.with_weights().import_into(running)
    scope = ScopeKey("ocr", "", "det", "qnn")
    for uri in (PLAIN, f"sha256:{'0' * 64}"):
        with pytest.raises(InvalidRequestError, match="no asset that the caller reads"):
            commit(running, scope, weights_in(uri))
    assert not running.generation(number=2).exists()


def test_a_writer_opens_no_asset_that_he_may_not_read_to_others(tmp_path: Path) -> None:
    mine = Grant(ME.uid, None, None, ("*",), None, frozenset(Right))
    rights = frozenset({Right.READ, Right.WRITE})
    theirs = Grant(SOMEBODY.uid, None, None, ("*",), ("rec",), rights)
    blind = Grant(SOMEBODY.uid, None, None, ("*",), ("det",), frozenset({Right.WRITE}))
    with Running(tmp_path, policy=Policy((mine, theirs, blind))) as running:
        info = {("det", "onnx"): weights_in(PLAIN), ("rec", "onnx"): ort()}
        AssetPackage({PLAIN: VOCABULARY}, info).import_into(running)
        uri = sealed_uri(asset_folders(running.generation())[0])
        scope = ScopeKey("ocr", "", "rec", "qnn")
        values = CommitValues(1, executor_info_json=json.dumps(weights_in(uri)))
        transaction = running.payloads.begin(SOMEBODY, scope)
        running.write(transaction, "model.onnx", b"compiled")
        with pytest.raises(InvalidRequestError, match="no asset that the caller reads"):
            running.payloads.commit(SOMEBODY, transaction.id, values)
        running.payloads.abort(SOMEBODY, transaction.id)
        # where the component uses it already, its readers learn nothing new
        own = running.payloads.begin(SOMEBODY, replace(scope, component="det"))
        running.write(own, "model.onnx", b"compiled")
        made = running.payloads.commit(SOMEBODY, own.id, values)
        assert f"{uri}/vocab.txt" in names_of(running, made)
        # who may read both may
        commit(running, scope, weights_in(uri))
        assert f"{uri}/vocab.txt" in names_of(running, scope)


def resealed(running: Running, before: str, after: str) -> int:
    path = running.generation() / "manifest.json"
    path.write_text(path.read_text().replace(before, after))
    sha256 = hashlib.sha256(path.read_bytes()).digest()
    return running.service.resealer.reseal(ME, "ocr", "", sha256).generation


def test_a_manifest_that_names_another_asset_of_the_package_can_be_resealed(
    running: Running,
) -> None:
    info = {("det", "onnx"): weights_in(PLAIN), ("rec", "onnx"): ort()}
    AssetPackage({PLAIN: VOCABULARY, uri_of(LARGE): LARGE}, info).import_into(running)
    first, second = (sealed_uri(place) for place in asset_folders(running.generation()))
    used = first if first in names_of(running)[1] else second
    other = second if used == first else first
    assert resealed(running, used, other) == 2
    assert names_of(running)[1].startswith(other)
    assert inodes(running.generation()) == inodes(running.generation(number=2))


def test_a_manifest_that_names_no_asset_of_the_package_is_not_resealed(running: Running) -> None:
    AssetPackage.with_weights().import_into(running)
    uri = sealed_uri(asset_folders(running.generation())[0])
    with pytest.raises(InvalidPackageError, match=r"names sha256:0{64}, no asset"):
        resealed(running, uri, f"sha256:{'0' * 64}")


def test_a_package_can_not_have_the_name_of_the_index(running: Running) -> None:
    with pytest.raises(InvalidNameError, match="a name of the store"):
        running.import_("assets")


def test_an_index_that_can_not_be_written_fails_no_import(running: Running) -> None:
    (running.store_path / "assets").write_bytes(b"in its way")
    AssetPackage.with_weights().import_into(running, "ocr")
    AssetPackage.with_weights().import_into(running, "other")
    assert verified(running, "other") == 3
    assert not set(inodes(running.generation("ocr"))) & set(inodes(running.generation("other")))
