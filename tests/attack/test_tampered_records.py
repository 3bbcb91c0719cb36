"""Whoever can write to the store can change no record and no manifest unnoticed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.services import ME, MODEL, Running
from support.tampering import (
    ONNX,
    OTHER,
    edit_manifest,
    edit_record,
    refused,
)

from sealcar.errors import (
    DamagedError,
    KeyRefusedError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    TruncatedError,
    UnknownFormatError,
)
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(generation=2),
        lambda record: record["variants"].pop(),
        lambda record: record["variants"][0]["payloads"].pop(),
        lambda record: record["variants"][0]["payloads"][0].update(name="renamed.onnx"),
        lambda record: record["variants"][0]["payloads"][0].update(size=1),
        lambda record: record["kek"].update(version="1 "),
    ],
)
def test_an_edited_record_is_refused(
    root: Path, generation: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    edit_record(generation, change)
    assert isinstance(refused(root), NotAuthenticError | KeyRefusedError)


def test_a_payload_that_the_record_calls_plain_is_refused(root: Path, generation: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        payload = record["variants"][0]["payloads"][0]
        payload.update(sealed=False, sha256=payload.pop("commitment"))
        payload.pop("digest")

    edit_record(generation, change)
    (generation / "det/onnx/model.onnx").write_bytes(MODEL)
    assert isinstance(refused(root), NotAuthenticError)


def test_a_record_with_a_new_field_is_refused(root: Path, generation: Path) -> None:
    edit_record(generation, lambda record: record.update(extra=1))
    assert isinstance(refused(root), UnknownFormatError)


def test_a_record_that_names_an_unknown_key_is_refused_without_asking_one(
    root: Path, generation: Path
) -> None:
    edit_record(generation, lambda record: record["kek"].update(alias="attackers"))
    error = refused(root)
    assert isinstance(error, KeyRefusedError)
    assert "attackers" in str(error)


def test_the_wrapped_key_of_another_package_is_refused(root: Path, generation: Path) -> None:
    stolen: dict[str, Any] = {}
    edit_record(root / "store/det-only/1/g/1", lambda record: stolen.update(record["kek"]))
    edit_record(generation, lambda record: record.update(kek=stolen))
    assert isinstance(refused(root), KeyRefusedError)


def test_the_record_of_another_package_is_refused(root: Path, generation: Path) -> None:
    foreign = json.loads((root / "store/det-only/1/g/1/manifest.json").read_bytes())
    metadata = foreign["additional_metadata"]
    edit_manifest(generation, lambda manifest: manifest.update(additional_metadata=metadata))
    error = refused(root)
    assert isinstance(error, NotAuthenticError)
    assert "det-only" in str(error)


def test_a_manifest_without_record_is_refused(root: Path, generation: Path) -> None:
    edit_manifest(generation, lambda manifest: manifest.pop("additional_metadata"))
    assert isinstance(refused(root), UnknownFormatError)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda m: m.update(package_name="evil"), "/package_name"),
        (lambda m: m.update(layout="installed"), "/layout"),
        (lambda m: m["components"]["det"].update(component_name="x"), "/components/det"),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"].update(ep="QNN"),
            "/components/det/variants/onnx",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"].update(variant_directory="rec"),
            "/components/det/variants/onnx",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"]["executor_info"]["ort"].update(
                model_file="../../x"
            ),
            "/components/det/variants/onnx/executor_info/ort",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"]["executor_info"].update(evil={}),
            "/components/det/variants/onnx/executor_info/evil",
        ),
        (
            lambda m: m["components"]["det"].update(
                variants=dict(reversed(m["components"]["det"]["variants"].items()))
            ),
            "/components/det/variants",
        ),
        (lambda m: m.update(components="elsewhere"), "/components"),
    ],
)
def test_a_changed_covered_field_is_refused_by_its_path(
    root: Path, generation: Path, change: Callable[[dict[str, Any]], None], path: str
) -> None:
    edit_manifest(generation, change)
    error = refused(root)
    assert isinstance(error, NotAuthenticError)
    assert path in str(error)


def test_what_is_not_covered_may_change(root: Path, generation: Path) -> None:
    edit_manifest(generation, lambda manifest: manifest.update(description="from a mirror"))
    with Running(root) as running:
        assert running.read(ONNX) == MODEL


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"a": 1, "a": 2}',
        b'{"additional_metadata": {"sealcar": 5}}',
        b"[" * 100_000,
    ],
)
def test_a_manifest_that_is_no_manifest_is_refused(
    root: Path, generation: Path, text: bytes
) -> None:
    (generation / "manifest.json").write_bytes(text)
    assert isinstance(refused(root), NotAuthenticError | UnknownFormatError)


def rename_variant(manifest: dict[str, Any]) -> None:
    variants = manifest["components"]["det"]["variants"]
    manifest["components"]["det"]["variants"] = {
        ("renamed" if name == "onnx" else name): body for name, body in variants.items()
    }


def test_a_renamed_variant_is_refused_under_either_name(root: Path, generation: Path) -> None:
    edit_manifest(generation, rename_variant)
    (generation / "det/onnx").rename(generation / "det/renamed")
    error = refused(root)
    assert isinstance(error, TruncatedError)
    assert "lacks variant 'onnx'" in str(error)
    with Running(root) as running:
        for variant, kind in [("renamed", NotFoundError), ("qnn", TruncatedError)]:
            with pytest.raises(kind):
                running.read(ScopeKey("ocr", "1", "det", variant))
        # the other component is whole
        assert running.read(ScopeKey("ocr", "1", "rec", "onnx")) == OTHER


def test_an_added_variant_is_listed_as_unsealed_and_never_served(
    root: Path, generation: Path
) -> None:
    body = {"variant_directory": "det/evil"}
    edit_manifest(generation, lambda m: m["components"]["det"]["variants"].update(evil=body))
    shutil.copytree(generation / "det/onnx", generation / "det/evil")
    with Running(root) as running:
        listed = running.looking.get(ME, "ocr").variants
        assert {value.variant for value in listed if not value.sealed} == {"evil"}
        with pytest.raises(NotFoundError, match="isn't sealed"):
            running.read(ScopeKey("ocr", "1", "det", "evil"))
        assert running.read(ONNX) == MODEL


@pytest.mark.parametrize("place", ["copy/1", "ocr/2"])
def test_a_package_copied_to_another_place_is_refused(root: Path, place: str) -> None:
    shutil.copytree(root / "store/ocr/1", root / "store" / place)
    name, version = place.split("/")
    error = refused(root, ScopeKey(name, version, "det", "onnx"))
    assert isinstance(error, NotAuthenticError)
    assert "lies in the place of" in str(error)


def test_a_store_of_another_key_is_refused_at_the_start(root: Path, tmp_path: Path) -> None:
    with Running(tmp_path / "other"):
        pass
    shutil.copy(tmp_path / "other/store/store.json", root / "store/store.json")
    with pytest.raises(KeyRefusedError), Running(root):
        pass


def test_a_tampered_package_keeps_no_other_from_being_served(root: Path, generation: Path) -> None:
    (generation / "manifest.json").write_bytes(b"{")
    with Running(root) as running:
        assert running.read(ScopeKey("det-only", "", "det", "onnx")) == MODEL
        summaries = {summary.name: summary for summary in running.listing.list(ME)}
        assert (summaries["ocr"].payloads, summaries["det-only"].payloads) == (0, 4)


@given(data=st.data())
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_bytes_a_manifest_has_they_are_refused_typed_or_mean_the_same(
    root: Path, generation: Path, data: st.DataObject
) -> None:
    path = generation / "manifest.json"
    kept = path.with_suffix(".kept")
    if not kept.exists():
        shutil.copy(path, kept)
    raw = bytearray(kept.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        end = at + data.draw(st.integers(0, 4))
        raw[at:end] = data.draw(st.binary(max_size=4))
    path.write_bytes(raw)
    with Running(root) as running:
        try:
            assert running.read(ONNX) == MODEL
        except SealcarError as error:
            assert error.place.package == "ocr"  # noqa: PT017  (either outcome is right)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["additional_metadata"].pop("sealcar"),
        lambda manifest: (
            next(iter(manifest["components"].values()))["variants"].popitem()[1].clear()
        ),
    ],
    ids=["record", "variant"],
)
def test_a_check_looks_at_the_manifest_that_lies_there_now_though_the_package_is_open(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    def verify() -> object:
        return running.packages.verify(ME, "ocr", "", 0, lambda *_: None)

    with Running(tmp_path) as running:
        running.import_()
        verify()
        edit_manifest(running.generation(), change)
        with pytest.raises(DamagedError):
            verify()
