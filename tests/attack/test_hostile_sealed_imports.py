"""A sealed export that somebody tampered with, or that would take a store back, doesn't come in."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.asset_packages import VOCABULARY, AssetPackage, asset_folders, ort, uri_of
from support.opened_stores import package_key, record_of
from support.sealed_exports import SealedFiles, changed, sealed_files, with_key_of
from support.services import ME, MODEL, SOMEBODY, Running
from support.tampering import OTHER, SECOND, edit_manifest, edit_record

from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidPackageError,
    KeyRefusedError,
    NotAuthenticError,
    NotFoundError,
    RolledBackError,
    SealcarError,
    TruncatedError,
    UnknownFormatError,
    WrongStateError,
)
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.service.values import ImportPlan, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.sealing.values import SealRecord

PLAIN = uri_of(VOCABULARY)
FIRST = ("det", "onnx", "", "model.onnx")
TWIN = ("det", "onnx", "", SECOND)
ELSEWHERE = ("rec", "onnx", "", "model.onnx")
SCOPE = ScopeKey("ocr", "1", "det", "onnx")


@pytest.fixture
def running(root: Path, tmp_path: Path) -> Iterator[Running]:
    """Give a daemon with the same key as the one that exported, and an empty store."""
    with Running(with_key_of(root, tmp_path / "other")) as running:
        yield running


def refused(running: Running, files: SealedFiles, name: str = "ocr") -> SealcarError:
    """Return the error of an import, and make sure that it left nothing."""
    before = running.listing.list(ME)
    with pytest.raises(SealcarError) as caught:
        files.send(running, name)
    assert running.listing.list(ME) == before
    assert not list((running.store_path / ".staging").iterdir())
    return caught.value


def with_bit_flipped(files: SealedFiles) -> SealedFiles:
    data = bytearray(files.files[FIRST][0])
    data[1 << 20] ^= 1
    return files.edited(FIRST, bytes(data))


def with_segments_swapped(files: SealedFiles) -> SealedFiles:
    data = files.files[FIRST][0]
    size = 1 << 20
    head, second, rest = data[:size], data[size : 2 * size], data[2 * size :]
    assert len(rest) < size
    return files.edited(FIRST, head + rest + second)


DAMAGED: dict[str, tuple[Callable[[SealedFiles], SealedFiles], type[SealcarError]]] = {
    "a flipped bit": (with_bit_flipped, NotAuthenticError),
    "segments swapped": (with_segments_swapped, NotAuthenticError),
    "swapped with another of its variant": (
        lambda files: files.edited(FIRST, files.files[TWIN][0]),
        NotAuthenticError,
    ),
    "swapped with one of another variant": (
        lambda files: files.edited(FIRST, files.files[ELSEWHERE][0]),
        NotAuthenticError,
    ),
    "replaced by its plain bytes": (
        lambda files: files.edited(FIRST, MODEL + bytes(len(files.files[FIRST][0]) - len(MODEL))),
        NotAuthenticError,
    ),
    "cut, and announced whole": (
        lambda files: files.edited(FIRST, files.files[FIRST][0][:-1]),
        TruncatedError,
    ),
    "cut to its header": (
        lambda files: files.edited(FIRST, files.files[FIRST][0][:40]),
        TruncatedError,
    ),
    "extended": (
        lambda files: files.edited(FIRST, files.files[FIRST][0] + b"x"),
        TruncatedError,
    ),
    "missing": (lambda files: files.without(FIRST), TruncatedError),
}


@pytest.mark.parametrize(("damage", "kind"), DAMAGED.values(), ids=DAMAGED)
def test_a_payload_that_isnt_what_the_record_says_is_refused(
    running: Running,
    generation: Path,
    damage: Callable[[SealedFiles], SealedFiles],
    kind: type[SealcarError],
) -> None:
    error = refused(running, damage(sealed_files(generation)))
    assert type(error) is kind, error


def test_a_payload_that_the_record_lacks_or_that_comes_twice_is_refused(
    running: Running, generation: Path
) -> None:
    files = sealed_files(generation)
    plan = ImportPlan("ocr", "1", files.manifest, sealed=True)
    sealed, kind = files.files[FIRST]
    for name, asset in (("unknown", ""), ("model.onnx", f"sha256:{'0' * 64}")):
        with running.packages.import_(ME, plan) as session, pytest.raises(InvalidPackageError):
            session.payload("det", "onnx", name, kind, len(sealed), asset=asset)
    with running.packages.import_(ME, plan) as session, pytest.raises(InvalidPackageError):
        session.payload("det", "onnx", "model.onnx", "blob", len(sealed))
    with running.packages.import_(ME, plan) as session:
        session.payload("det", "onnx", "model.onnx", kind, len(sealed))
        for at in range(0, len(sealed), 1 << 20):
            session.data(sealed[at : at + (1 << 20)])
        with pytest.raises(InvalidPackageError, match="came twice"):
            session.payload("det", "onnx", "model.onnx", kind, len(sealed))
    with running.packages.import_(ME, plan) as session, pytest.raises(TruncatedError):
        session.payload("det", "onnx", "model.onnx", kind, len(sealed) - 1)
    assert not running.listing.list(ME)


def test_a_record_of_another_package_is_refused(
    running: Running, root: Path, generation: Path
) -> None:
    foreign = json.loads((root / "store/det-only/1/g/1/manifest.json").read_bytes())
    metadata = {"additional_metadata": foreign["additional_metadata"]}.items()
    files = changed(sealed_files(generation), metadata)
    assert "det-only@1" in str(refused(running, files))
    # under its own name its payloads aren't those of the other package
    assert isinstance(refused(running, files, "det-only"), NotAuthenticError)


def test_an_export_under_another_name_version_or_key_is_refused(
    running: Running, generation: Path
) -> None:
    files = sealed_files(generation)
    assert "keeps its name and version" in str(refused(running, files, "mine"))
    plan = ImportPlan("ocr", "2", files.manifest, sealed=True)
    with pytest.raises(InvalidPackageError, match="keeps its name and version"):
        running.packages.import_(ME, plan)
    plan = ImportPlan("ocr", "1", files.manifest, "other", sealed=True)
    with pytest.raises(InvalidPackageError, match="keeps its key"):
        running.packages.import_(ME, plan)


def test_an_edited_record_is_refused_before_a_payload_comes(
    running: Running, generation: Path
) -> None:
    edit_record(generation, lambda record: record.update(generation=7))
    assert isinstance(refused(running, sealed_files(generation)), NotAuthenticError)


def test_an_export_whose_record_names_an_unknown_key_is_refused(
    running: Running, generation: Path
) -> None:
    edit_record(generation, lambda record: record["kek"].update(alias="attackers"))
    error = refused(running, sealed_files(generation))
    assert isinstance(error, KeyRefusedError)
    assert "attackers" in str(error)


def test_a_record_whose_key_was_wrapped_for_another_package_is_refused(
    running: Running, root: Path, generation: Path
) -> None:
    stolen: dict[str, Any] = {}
    edit_record(root / "store/det-only/1/g/1", lambda record: stolen.update(record["kek"]))
    edit_record(generation, lambda record: record.update(kek=stolen))
    assert isinstance(refused(running, sealed_files(generation)), KeyRefusedError)


def test_an_export_that_another_key_sealed_is_refused(tmp_path: Path, generation: Path) -> None:
    with Running(tmp_path / "stranger") as stranger:
        assert isinstance(refused(stranger, sealed_files(generation)), KeyRefusedError)


def test_a_manifest_that_isnt_what_was_sealed_is_refused(
    running: Running, generation: Path
) -> None:
    files = sealed_files(generation)
    for change in ({"package_name": "forged"}, {"layout": "installed"}):
        error = refused(running, changed(files, change.items()))
        assert isinstance(error, NotAuthenticError), error
    edit_manifest(generation, lambda manifest: manifest["components"]["det"]["variants"].pop("qnn"))
    error = refused(running, SealedFiles(sealed_files(generation).manifest, files.files, {}))
    assert isinstance(error, TruncatedError)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"additional_metadata": {"sealcar": {"format": "9"}}}'], ids=str
)
def test_what_holds_no_record_is_refused(running: Running, text: str) -> None:
    with pytest.raises((NotAuthenticError, UnknownFormatError)):
        running.packages.import_(ME, ImportPlan("ocr", "1", text, sealed=True))


def test_whoever_may_not_import_may_not_import_sealed_either(
    running: Running, generation: Path
) -> None:
    plan = ImportPlan("ocr", "1", sealed_files(generation).manifest, sealed=True)
    with pytest.raises(NotFoundError):
        running.packages.import_(SOMEBODY, plan)


def grown(root: Path, number: int) -> SealedFiles:
    """Have the first daemon publish up to a generation, and export it."""
    with Running(root) as origin:
        for at in range(origin.store.newest("ocr", "1"), number):
            origin.add_variant(ScopeKey("ocr", "1", "det", f"v{at}"))
    return sealed_files(root / f"store/ocr/1/g/{number}")


def test_an_older_generation_than_was_seen_is_refused(running: Running, root: Path) -> None:
    old, new = grown(root, 1), grown(root, 2)
    assert new.send(running).generation == 2
    assert isinstance(refused(running, old), RolledBackError)
    assert isinstance(refused(running, new), AlreadyExistsError)


def test_a_generation_that_was_removed_is_refused_and_one_that_the_store_lost_is_not(
    running: Running, root: Path
) -> None:
    files = grown(root, 1)
    files.send(running)
    assert running.read(SCOPE) == MODEL
    shutil.rmtree(running.store_path / "ocr/1/g/1")
    assert files.send(running).generation == 1
    running.service.removing.remove(ME, "ocr", "1")
    error = refused(running, files)
    assert isinstance(error, RolledBackError)
    assert "removed from here" in str(error)
    assert grown(root, 2).send(running).generation == 2
    assert running.read(SCOPE) == MODEL


def test_another_generation_of_the_same_number_than_was_seen_is_refused(
    running: Running, root: Path
) -> None:
    grown(root, 1).send(running)
    running.add_variant(ScopeKey("ocr", "1", "det", "own"))
    fork = grown(root, 2)
    shutil.rmtree(running.store_path / "ocr/1/g/2")
    assert isinstance(refused(running, fork), RolledBackError)


def test_a_generation_that_doesnt_follow_on_what_was_seen_is_refused(
    running: Running, root: Path
) -> None:
    grown(root, 1).send(running)
    running.add_variant(ScopeKey("ocr", "1", "det", "own"))
    assert isinstance(refused(running, grown(root, 3)), RolledBackError)


def test_another_package_of_the_same_name_and_version_is_refused(
    running: Running, root: Path
) -> None:
    running.import_()
    assert isinstance(refused(running, grown(root, 2)), RolledBackError)
    assert isinstance(refused(running, grown(root, 3)), ConflictError)
    assert running.read(SCOPE) == MODEL


@pytest.mark.parametrize("number", [10**18 - 1, 10**18, 2**63 - 1])
def test_a_number_that_nothing_can_follow_on_is_refused(
    running: Running, root: Path, number: int
) -> None:
    """Who was sent the package knows its key, and can seal a generation of it under any number."""
    files = grown(root, 1)
    document = json.loads(files.manifest)
    sealed = record.parse(record.open_envelope(document)[0])
    text = record.serialise(replace(sealed, generation=number))
    with Running(root) as origin:
        opener = origin.service.exporter._opener
        with opener.keys(opener.open("ocr")) as keys:
            document["additional_metadata"]["sealcar"] = record.envelope(text, keys.tag(text))
    error = refused(running, replace(files, manifest=json.dumps(document)))
    assert isinstance(error, InvalidPackageError)
    assert files.send(running).generation == 1


def test_a_shredded_version_is_not_taken_back(running: Running, root: Path) -> None:
    files = grown(root, 1)
    files.send(running)
    running.service.keys.shred("ocr", "1")
    assert isinstance(refused(running, files), WrongStateError)


@pytest.mark.parametrize("piece", [1 << 20, 700_001, 65_536])
def test_an_honest_export_comes_in_whatever_pieces_it_comes_in(
    running: Running, root: Path, generation: Path, piece: int
) -> None:
    files = sealed_files(generation)
    done = files.send(running, piece=piece)
    assert (done.name, done.version, done.generation) == ("ocr", "1", 1)
    assert sealed_files(running.generation()) == files
    assert running.read(SCOPE) == MODEL
    assert running.read(SCOPE, SECOND) == OTHER
    assert (root / "store/ocr/1/g/1").exists()


def test_a_file_of_a_shared_asset_that_isnt_its_own_is_refused(
    running: Running, root: Path
) -> None:
    with Running(root) as origin:
        AssetPackage.with_weights({"a": b"12345", "b": b"67890"}).import_into(origin, "shared")
    files = sealed_files(root / "store/shared/1/g/1")
    one, two = [key for key in files.files if key[2]]
    error = refused(running, files.edited(one, files.files[two][0]), "shared")
    assert isinstance(error, NotAuthenticError)
    assert files.send(running, "shared").generation == 1
    scope = ScopeKey("shared", "", "det", "onnx")
    assert running.read(scope, f"{one[2]}/a") == b"12345"


def sealed_anew(
    root: Path, generation: Path, change: Callable[[SealRecord], SealRecord]
) -> SealedFiles:
    """Return an export whose record says something else, by somebody who knows its key."""
    sealed = change(record_of(generation))
    text = record.serialise(sealed)
    with (
        package_key(root / "kek", generation) as key,
        PackageKeys(key.copy(), sealed.package_id) as keys,
    ):
        envelope = record.envelope(text, keys.tag(text))

    def put(manifest: dict[str, Any]) -> None:
        manifest["additional_metadata"]["sealcar"] = envelope

    edit_manifest(generation, put)
    return sealed_files(generation)


def of_its_first_payload(**values: object) -> Callable[[SealRecord], SealRecord]:
    def change(sealed: SealRecord) -> SealRecord:
        first, *others = sealed.variants
        payload, *rest = first.payloads
        payloads = (replace(payload, **values), *rest)  # type: ignore[arg-type]
        return replace(sealed, variants=(replace(first, payloads=payloads), *others))

    return change


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ({"digest": bytes(32)}, NotAuthenticError, "isn't the one that was imported"),
        ({"commitment": bytes(32)}, NotAuthenticError, "commits to"),
        (
            {"sealed": False, "commitment": b"", "digest": b"", "sha256": bytes(32)},
            UnknownFormatError,
            "in plain",
        ),
    ],
)
def test_who_knows_the_key_sends_no_record_that_its_payloads_arent_of(
    running: Running,
    root: Path,
    generation: Path,
    values: dict[str, object],
    kind: type[SealcarError],
    reason: str,
) -> None:
    error = refused(running, sealed_anew(root, generation, of_its_first_payload(**values)))
    assert isinstance(error, kind)
    assert reason in error.message


def test_who_knows_the_key_sends_no_asset_under_the_uri_of_another(
    running: Running, root: Path
) -> None:
    with Running(root) as origin:
        AssetPackage({PLAIN: VOCABULARY}, {("det", "onnx"): ort()}).import_into(origin, "shared")
    generation = root / "store/shared/1/g/1"
    (folder,) = asset_folders(generation)
    uri = f"sha256:{'0' * 64}"
    folder.rename(folder.with_name(uri.replace(":", "-")))

    def change(sealed: SealRecord) -> SealRecord:
        (asset,) = sealed.assets
        return replace(sealed, assets=(replace(asset, uri=uri),))

    error = refused(running, sealed_anew(root, generation, change), "shared")
    assert isinstance(error, NotAuthenticError)
    assert "aren't those it names" in error.message


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_count_that_isnt_that_of_the_payloads_is_refused(
    running: Running, generation: Path, wrong: int
) -> None:
    files = sealed_files(generation)
    plan = ImportPlan("ocr", "1", files.manifest, sealed=True)
    with running.packages.import_(ME, plan) as session:
        for (component, variant, _, name), (data, kind) in files.files.items():
            session.payload(component, variant, name, kind, len(data))
            for at in range(0, len(data), 1 << 20):
                session.data(data[at : at + (1 << 20)])
        with pytest.raises(TruncatedError):
            session.finish(len(files.files) + wrong)
    assert running.listing.list(ME) == []


def test_a_tag_that_is_cut_or_another_is_refused(running: Running, generation: Path) -> None:
    def forge(manifest: dict[str, Any]) -> None:
        forged = base64.urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
        manifest["additional_metadata"]["sealcar"]["tag"] = forged

    edit_manifest(generation, forge)
    assert isinstance(refused(running, sealed_files(generation)), NotAuthenticError)
