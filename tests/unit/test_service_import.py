"""An import takes what a manifest announces, whole, or leaves nothing behind."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.services import ME, MODEL, SOMEBODY, Running, everything_for, manifest

from sealcar.errors import (
    AlreadyExistsError,
    InvalidNameError,
    InvalidPackageError,
    InvalidRequestError,
    KeyRefusedError,
    NotFoundError,
    SealcarError,
    WrongStateError,
)
from sealcar_server.service.importing import ImportSession
from sealcar_server.service.values import ImportPlan, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONE = manifest(("det", "onnx"))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


def begin(running: Running, document: Any = ONE, **fields: Any) -> ImportSession:  # noqa: ANN401  (JSON)
    text = document if isinstance(document, str) else json.dumps(document)
    given: dict[str, Any] = {"name": "ocr", "version": "1", "manifest_json": text}
    session = running.packages.import_(ME, ImportPlan(**given | fields))
    assert isinstance(session, ImportSession)
    return session


def nothing_left(running: Running) -> bool:
    return not running.listing.list(ME) and not any((running.store_path / ".staging").iterdir())


def test_an_import_is_a_package_that_ort_can_read(running: Running) -> None:
    document = manifest(("det", "onnx"), description="text recognition")
    with begin(running, document) as session:
        session.payload("det", "onnx", "model.onnx", "model", 3)
        session.data(b"abc")
        session.payload("det", "onnx", "data/empty.bin", "initializers", 0)
        done = session.finish(2)
    assert (done.name, done.version, done.generation) == ("ocr", "1", 1)
    stored = json.loads((running.generation() / "manifest.json").read_bytes())
    variant = stored["components"]["det"]["variants"]["onnx"]
    assert variant["variant_directory"] == "det/onnx"
    assert variant["executor_info"]["sealcar"] == {"format": "1"}
    assert variant["executor_info"]["ort"] == {"model_file": "model.onnx"}
    detail = running.looking.get(ME, "ocr")
    assert (detail.description, detail.kek_alias) == ("text recognition", "main")
    assert [(p.name, p.kind, p.size) for p in detail.variants[0].payloads] == [
        ("model.onnx", "model", 3),
        ("data/empty.bin", "initializers", 0),
    ]
    assert running.read(ScopeKey("ocr", "", "det", "onnx"), "data/empty.bin") == b""


@pytest.mark.parametrize("piece", [1 << 20, 700_000, 65_536])
def test_bytes_may_come_in_pieces_of_any_size(running: Running, piece: int) -> None:
    with begin(running) as session:
        session.payload("det", "onnx", "model.onnx", "model", len(MODEL))
        for at in range(0, len(MODEL), piece):
            session.data(MODEL[at : at + piece])
        session.finish(1)
    assert running.read(ScopeKey("ocr", "", "det", "onnx")) == MODEL
    assert running.packages.verify(ME, "ocr", "", 0, lambda *_: None).size == len(MODEL)


@pytest.mark.parametrize(
    ("stated", "chosen"), [("2.0.1", "2.0.1"), ("Version 2!", "1"), ("current", "1"), (None, "1")]
)
def test_an_empty_version_is_the_publishers_if_it_fits(
    running: Running, stated: str | None, chosen: str
) -> None:
    fields = {} if stated is None else {"package_version": stated}
    with begin(running, manifest(("det", "onnx"), **fields), version="") as session:
        session.payload("det", "onnx", "model.onnx", "model", 1)
        session.data(b"x")
        assert session.finish(1).version == chosen


def unknown_component(session: ImportSession) -> None:
    session.payload("rec", "onnx", "model.onnx", "model", 1)


def unknown_variant(session: ImportSession) -> None:
    session.payload("det", "qnn", "model.onnx", "model", 1)


def duplicate(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 0)
    session.payload("det", "onnx", "model.onnx", "model", 0)


def case_twin(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 0)
    session.payload("det", "onnx", "Model.ONNX", "model", 0)


def file_and_folder(session: ImportSession) -> None:
    session.payload("det", "onnx", "data", "other", 0)
    session.payload("det", "onnx", "data/model.onnx", "model", 0)


def folder_and_file(session: ImportSession) -> None:
    session.payload("det", "onnx", "data/model.onnx", "model", 0)
    session.payload("det", "onnx", "Data", "other", 0)


def too_few_bytes(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 5)
    session.data(b"four")
    session.payload("det", "onnx", "other", "other", 0)


def too_few_bytes_at_the_end(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 5)
    session.data(b"four")
    session.finish(1)


def too_many_bytes(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 3)
    session.data(b"four")


def bytes_without_payload(session: ImportSession) -> None:
    session.data(b"four")


def wrong_count(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 0)
    session.finish(2)


def nothing_sent(session: ImportSession) -> None:
    session.finish(0)


def unknown_kind(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "secret", 0)


def blob_in_a_folder(session: ImportSession) -> None:
    session.payload("det", "onnx", "data/ctx.bin", "blob", 0)


def impossible_size(session: ImportSession) -> None:
    session.payload("det", "onnx", "model.onnx", "model", 1 << 60)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (unknown_component, InvalidPackageError),
        (unknown_variant, InvalidPackageError),
        (duplicate, AlreadyExistsError),
        (case_twin, AlreadyExistsError),
        (file_and_folder, InvalidNameError),
        (folder_and_file, InvalidNameError),
        (too_few_bytes, InvalidPackageError),
        (too_few_bytes_at_the_end, InvalidPackageError),
        (too_many_bytes, InvalidPackageError),
        (bytes_without_payload, WrongStateError),
        (wrong_count, InvalidPackageError),
        (nothing_sent, InvalidPackageError),
        (unknown_kind, InvalidRequestError),
        (blob_in_a_folder, InvalidNameError),
        (impossible_size, InvalidRequestError),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_step_ends_the_import_and_leaves_nothing(
    running: Running, step: Callable[[ImportSession], None], kind: type[SealcarError]
) -> None:
    session = begin(running)
    with pytest.raises(kind) as caught:
        step(session)
    assert (caught.value.place.package, caught.value.place.version) == ("ocr", "1")
    assert nothing_left(running)
    with pytest.raises(WrongStateError):
        session.finish(1)
    running.import_()


@pytest.mark.parametrize(
    "name", ["../m", "/m", "m\0", "a\\b", ".m", "x" * 5000, "e\u0301", "manifest.json", ""]
)
def test_a_hostile_payload_name_is_refused(running: Running, name: str) -> None:
    session = begin(running)
    with pytest.raises(InvalidNameError):
        session.payload("det", "onnx", name, "model", 1)
    assert nothing_left(running)


def variant_with(**fields: object) -> dict[str, object]:
    return {"schema_version": "1.0", "components": {"det": {"variants": {"onnx": fields}}}}


@pytest.mark.parametrize(
    ("document", "finding"),
    [
        ("", "not JSON"),
        ("[]", "must be an object"),
        ('{"schema_version": "1.0", "components": {}, "components": {}}', "stands twice"),
        ('{"schema_version": 18446744073709551616, "components": {}}', "outside"),
        ({"components": {}}, "/schema_version' must be"),
        ({"schema_version": "1.7", "components": {}}, "/schema_version' is one"),
        ({"schema_version": "2.0", "components": {}}, "/schema_version' is one"),
        ({"schema_version": True, "components": {}}, "/schema_version' must be"),
        ({"schema_version": "1.0"}, "/components' must be"),
        ({"schema_version": "1.0", "components": {}, "new": 1}, "/new' is a field"),
        ({"schema_version": "1.0", "components": {}, "layout": "installed"}, "/layout"),
        ({"schema_version": "1.0", "components": {}, "package_name": 5}, "/package_name"),
        (
            {"schema_version": "1.0", "components": {}, "shared_assets": {"sha256:0": "x"}},
            "/shared_assets/sha256:0' is no sha256:",
        ),
        ({"schema_version": "1.0", "components": {"det": "det"}}, "inline, not as a path"),
        ({"schema_version": "1.0", "components": {"det": {}}}, "/components/det/variants"),
        ({"schema_version": "1.0", "components": {"..": {"variants": {}}}}, "begin with a dot"),
        (
            {"schema_version": "1.0", "components": {"shared_assets": {"variants": {}}}},
            "name of the format",
        ),
        (
            {"schema_version": "1.0", "components": {"det": {"variants": {"a/b": {}}}}},
            "must not hold /",
        ),
        (variant_with(ep=None), "variants/onnx/ep' must be a string"),
        (variant_with(evil=1), "variants/onnx/evil' is a field"),
        (variant_with(executor_info={"ort": "ort.json"}), "executor_info/ort' must be written"),
        (variant_with(executor_info={"sealcar": {}}), "sealcar's own"),
        (
            {"schema_version": "1.0", "components": {}, "additional_metadata": {"sealcar": {}}},
            "sealed already",
        ),
        ({"schema_version": "1.0", "components": {}, "additional_metadata": 5}, "must be an obj"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused_by_its_path(
    running: Running, document: object, finding: str
) -> None:
    with pytest.raises(InvalidPackageError, match=re.escape(finding)):
        begin(running, document)
    assert nothing_left(running)


def test_a_version_is_imported_once(running: Running) -> None:
    running.import_()
    with pytest.raises(AlreadyExistsError, match="imported before"):
        begin(running)
    running.import_("ocr", "2")
    assert running.looking.get(ME, "ocr").summary.version == "2"


def test_of_two_imports_of_one_version_one_wins(running: Running) -> None:
    slow, fast = begin(running), begin(running)
    for session in (slow, fast):
        session.payload("det", "onnx", "model.onnx", "model", 0)
    fast.finish(1)
    with pytest.raises(AlreadyExistsError, match="faster"):
        slow.finish(1)
    assert running.packages.verify(ME, "ocr", "1", 0, lambda *_: None).payloads == 1


@pytest.mark.parametrize("name", ["", "..", "OCR", "a/b", "store.json", "x" * 65])
def test_a_hostile_package_name_is_refused(running: Running, name: str) -> None:
    with pytest.raises(InvalidNameError):
        begin(running, name=name)
    with pytest.raises(InvalidNameError):
        begin(running, version="current" if name == "store.json" else name or "..")


def test_an_unknown_key_alias_is_refused(running: Running) -> None:
    with pytest.raises(KeyRefusedError, match="elsewhere"):
        begin(running, kek_alias="elsewhere")


def test_who_may_not_import_learns_nothing(tmp_path: Path) -> None:
    policy = everything_for(SOMEBODY.uid)
    with Running(tmp_path, policy=policy) as running, pytest.raises(NotFoundError):
        begin(running)
