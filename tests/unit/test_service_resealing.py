"""An edit of a manifest in the store is refused until somebody vouches for it."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.services import ME, MODEL, Running
from support.tampering import FILES, edit_manifest, edit_record

from sealcar.errors import (
    ConflictError,
    InvalidPackageError,
    InvalidRequestError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    TruncatedError,
    UnknownFormatError,
    WrongStateError,
)
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealcar_server.service.resealing import Resealed

ONNX = ScopeKey("ocr", "1", "det", "onnx")
QNN = ScopeKey("ocr", "1", "det", "qnn")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        running.import_(payloads=FILES)
        yield running


def look(running: Running) -> Resealed:
    return running.service.resealer.reseal(ME, "ocr", "", None)


def reseal(running: Running) -> Resealed:
    return running.service.resealer.reseal(ME, "ocr", "", look(running).manifest_sha256)


def wanted(manifest: dict[str, Any]) -> None:
    manifest["description"] = "edited"
    variants = manifest["components"]["det"]["variants"]
    variants["onnx"]["ep"] = "CPUExecutionProvider"
    variants["onnx"]["executor_info"]["ort"]["session_options"] = {"session.intra": "1"}
    manifest["components"]["det"]["variants"] = dict(reversed(variants.items()))
    manifest["package_name"] = "other"


def test_an_edit_is_shown_then_sealed_as_the_next_generation(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    seen = look(running)
    assert (seen.generation, seen.unsealed) == (0, ())
    assert seen.changed == (
        "/package_name",
        "/components/det/variants/onnx",
        "/components/det/variants/onnx/executor_info/ort",
        "/components/det/variants",
    )
    text = (running.generation() / "manifest.json").read_bytes()
    assert seen.manifest_sha256 == hashlib.sha256(text).digest()
    assert not running.generation(number=2).exists()
    done = reseal(running)
    assert (done.generation, done.changed) == (2, seen.changed)
    detail = running.looking.get(ME, "ocr")
    assert (detail.summary.generation, detail.description) == (2, "edited")
    assert [each.variant for each in detail.variants if each.component == "det"] == ["qnn", "onnx"]
    assert detail.variants[1].ep == "CPUExecutionProvider"
    assert running.read(ONNX) == MODEL
    running.packages.verify(ME, "ocr", "", 0, lambda *_: None)


def test_the_edited_generation_stays_refused(running: Running) -> None:
    assert running.read(ONNX) == MODEL, "it is remembered from now on"
    edit_manifest(running.generation(), wanted)
    reseal(running)
    with pytest.raises(NotAuthenticError, match="package_name"):
        running.looking.get(ME, "ocr", "1", 1)


def test_a_resealed_package_can_be_written_to(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    reseal(running)
    assert running.add_variant(ScopeKey("ocr", "", "det", "new")).generation == 3
    assert running.read(ONNX) == MODEL


def test_payload_files_are_linked_and_those_of_removed_variants_are_not(running: Running) -> None:
    def change(manifest: dict[str, Any]) -> None:
        del manifest["components"]["det"]["variants"]["qnn"]
        del manifest["components"]["rec"]

    edit_manifest(running.generation(), change)
    seen = look(running)
    assert seen.changed == ("/components/det/variants/qnn", "/components/rec/variants/onnx")
    reseal(running)
    before, after = running.generation(), running.generation(number=2)
    assert (before / "det/onnx/model.onnx").samefile(after / "det/onnx/model.onnx")
    assert sorted(path.name for path in (after / "det").iterdir()) == ["onnx"]
    assert not (after / "rec").exists()
    assert running.read(ONNX) == MODEL
    with pytest.raises(NotFoundError):
        running.read(QNN)


def test_a_variant_that_nobody_sealed_is_not_carried_over(running: Running) -> None:
    def change(manifest: dict[str, Any]) -> None:
        wanted(manifest)
        manifest["components"]["det"]["variants"]["evil"] = {"variant_directory": "det/qnn"}
        manifest["components"]["new"] = {"variants": {"evil": {}}}

    edit_manifest(running.generation(), change)
    assert look(running).unsealed == (
        "/components/det/variants/evil",
        "/components/new/variants/evil",
    )
    reseal(running)
    manifest = json.loads((running.generation(number=2) / "manifest.json").read_bytes())
    assert sorted(manifest["components"]) == ["det", "rec"]
    assert sorted(manifest["components"]["det"]["variants"]) == ["onnx", "qnn"]


def test_a_manifest_that_was_swapped_in_between_is_a_conflict(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    seen = look(running)
    edit_manifest(running.generation(), lambda manifest: manifest.update(package_name="evil"))
    with pytest.raises(ConflictError, match="look again"):
        running.service.resealer.reseal(ME, "ocr", "", seen.manifest_sha256)
    assert not running.generation(number=2).exists()


def test_what_lost_only_its_mark_gets_it_back(running: Running) -> None:
    def change(manifest: dict[str, Any]) -> None:
        body = manifest["components"]["det"]["variants"]["onnx"]
        del body["executor_info"]["sealcar"], body["variant_directory"]

    edit_manifest(running.generation(), change)
    reseal(running)
    manifest = json.loads((running.generation(number=2) / "manifest.json").read_bytes())
    body = manifest["components"]["det"]["variants"]["onnx"]
    assert body["executor_info"]["sealcar"] == {"format": "1"}
    assert body["variant_directory"] == "det/onnx"


@pytest.mark.parametrize("unsealed", [False, True])
def test_there_is_nothing_to_do_where_nothing_covered_differs(
    running: Running, *, unsealed: bool
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["description"] = "free"
        if unsealed:
            manifest["components"]["det"]["variants"]["evil"] = {}

    edit_manifest(running.generation(), change)
    seen = look(running)
    assert (seen.changed, bool(seen.unsealed)) == ((), unsealed)
    with pytest.raises(WrongStateError):
        running.service.resealer.reseal(ME, "ocr", "", seen.manifest_sha256)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(schema_version="9.0"), "/schema_version"),
        (lambda m: m.update(layout="installed"), "/layout"),
        (lambda m: m["components"]["det"].update(odd=1), "/components/det/odd"),
        (lambda m: m.update(components="elsewhere"), "components"),
        (lambda m: m["components"].update(det="det.json"), "components/det"),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"].update(variant_directory="rec"),
            "/components/det/variants/onnx/variant_directory",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"]["executor_info"]["ort"].update(
                model_file="../qnn/model.onnx"
            ),
            "leads out",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"]["executor_info"]["ort"].update(
                model_file="nothing.onnx"
            ),
            "nothing.onnx",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"]["executor_info"]["ort"].update(
                model_file=f"sha256:{64 * 'a'}"
            ),
            "no asset of the package",
        ),
    ],
)
def test_an_edit_that_breaks_a_rule_is_refused_by_its_place(
    running: Running, change: Callable[[dict[str, Any]], None], text: str
) -> None:
    edit_manifest(running.generation(), change)
    digest = hashlib.sha256((running.generation() / "manifest.json").read_bytes()).digest()
    with pytest.raises(InvalidPackageError, match=text):
        running.service.resealer.reseal(ME, "ocr", "", digest)
    assert not running.generation(number=2).exists()
    assert not list((running.store_path / ".staging").iterdir())


def test_a_record_that_is_gone_cant_be_vouched_for(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    reseal(running)
    edit_manifest(running.generation(number=2), lambda m: m.pop("additional_metadata"))
    with pytest.raises(UnknownFormatError, match="generation 1 can be read"):
        look(running)


def test_a_record_of_another_place_cant_be_vouched_for(running: Running) -> None:
    running.import_("other", payloads=FILES)
    foreign = json.loads((running.generation("other") / "manifest.json").read_bytes())
    metadata = foreign["additional_metadata"]
    edit_manifest(running.generation(), lambda m: m.update(additional_metadata=metadata))
    with pytest.raises(NotAuthenticError, match="other"):
        look(running)


def test_a_forged_record_cant_be_vouched_for(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    edit_record(running.generation(), lambda record: record["variants"][0]["payloads"].pop())
    with pytest.raises(NotAuthenticError):
        look(running)


@pytest.mark.parametrize("digest", [b"", b"x" * 31])
def test_a_digest_that_is_none_is_refused(running: Running, digest: bytes) -> None:
    edit_manifest(running.generation(), wanted)
    with pytest.raises(InvalidRequestError, match="32 bytes"):
        running.service.resealer.reseal(ME, "ocr", "", digest)


def test_a_payload_that_is_gone_is_told(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    (running.generation() / "rec/onnx/model.onnx").unlink()
    with pytest.raises(TruncatedError, match="lacks a payload"):
        reseal(running)
    assert running.service.validator.validate(ME, "ocr").findings


def test_of_two_who_reseal_one_edit_one_wins(running: Running) -> None:
    edit_manifest(running.generation(), wanted)
    digest = look(running).manifest_sha256
    ended: list[int | type[Exception]] = []

    def once() -> None:
        try:
            done = running.service.resealer.reseal(ME, "ocr", "", digest)
            ended.append(done.generation)
        except SealcarError as error:
            ended.append(type(error))

    threads = [threading.Thread(target=once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended, key=str) == [2, *[ConflictError] * 3]
    assert not running.generation(number=3).exists()
