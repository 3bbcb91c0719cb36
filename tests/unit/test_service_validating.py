"""All that is wrong with a generation is found, by its place, without reading a payload."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.services import ME, Running
from support.tampering import FILES, edit_manifest, edit_record, flip

from sealcar.errors import DeniedError, LockedError, NotFoundError, RolledBackError
from sealcar_server.access.policy import Grant, Policy, Right

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar_server.service.findings import Validated


@pytest.fixture
def generation(tmp_path: Path) -> Path:
    with Running(tmp_path) as running:
        running.import_(payloads=FILES)
        return running.generation()


def validated(tmp_path: Path, **where: Any) -> Validated:  # noqa: ANN401  (validate's own)
    with Running(tmp_path) as running:
        return running.service.validator.validate(ME, "ocr", **where)


def found(tmp_path: Path) -> list[tuple[str, str]]:
    """Return code and place of each finding."""
    return [(each.code, each.place) for each in validated(tmp_path).findings]


def test_an_untouched_generation_has_no_findings(tmp_path: Path, generation: Path) -> None:
    result = validated(tmp_path)
    assert (result.version, result.generation, result.verified) == ("1", 1, True)
    assert result.findings == ()
    assert generation.exists()


def test_every_changed_part_is_named_in_the_order_of_the_manifest(
    tmp_path: Path, generation: Path
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        components = manifest["components"]
        components["rec"]["variants"]["onnx"]["executor_info"]["ort"]["model_file"] = "x"
        components["det"]["variants"]["qnn"]["ep"] = "QNN"
        components["det"]["component_name"] = "other"
        components["det"]["variants"]["onnx"]["executor_info"]["new"] = {}
        manifest["package_name"] = "evil"

    edit_manifest(generation, change)
    assert found(tmp_path) == [
        ("changed", "/package_name"),
        ("changed", "/components/det"),
        ("changed", "/components/det/variants/onnx/executor_info/new"),
        ("changed", "/components/det/variants/qnn"),
        ("changed", "/components/rec/variants/onnx/executor_info/ort"),
    ]


def test_files_are_compared_with_the_record(tmp_path: Path, generation: Path) -> None:
    (generation / "det/onnx/model.onnx").unlink()
    (generation / "det/onnx/second.onnx").unlink()
    (generation / "det/onnx/second.onnx").symlink_to("../qnn/model.onnx")
    with (generation / "rec/onnx/model.onnx").open("ab") as file:
        file.write(b"x")
    assert found(tmp_path) == [
        ("missing", "det/onnx/model.onnx"),
        ("confinement", "det/onnx/second.onnx"),
        ("size", "rec/onnx/model.onnx"),
    ]


def test_payloads_are_not_read(tmp_path: Path, generation: Path) -> None:
    flip(generation / "det/onnx/model.onnx", 100)
    assert found(tmp_path) == []


def test_an_added_variant_is_a_warning_and_a_lost_one_an_error(
    tmp_path: Path, generation: Path
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        variants = manifest["components"]["det"]["variants"]
        variants["a/b~c"] = {}
        del variants["qnn"]

    edit_manifest(generation, change)
    added, lost = sorted(validated(tmp_path).findings, key=lambda each: each.is_error)
    assert (added.code, added.place, added.is_error) == (
        "not-sealed",
        "/components/det/variants/a~1b~0c",
        False,
    )
    assert (lost.code, lost.place) == ("missing", "/components/det/variants/qnn")


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        (lambda m: m.update(schema_version="9.0"), "version", "/schema_version"),
        (lambda m: m.update(unknown=1), "unknown-field", "/unknown"),
        (lambda m: m.update(layout=5), "schema", "/layout"),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"].update(variant_directory="../x"),
            "confinement",
            "/components/det/variants/onnx/variant_directory",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"].update(variant_directory="det/x"),
            "not-found",
            "/components/det/variants/onnx/variant_directory",
        ),
        (
            lambda m: m["components"]["det"]["variants"]["onnx"].update(odd=1),
            "schema",
            "/components/det/variants/onnx/odd",
        ),
        (lambda m: m.pop("additional_metadata"), "seal-record", "/additional_metadata/sealcar"),
        (
            lambda m: m["additional_metadata"]["sealcar"].update(tag="AAAA"),
            "seal-record",
            "/additional_metadata/sealcar",
        ),
    ],
)
def test_a_broken_rule_is_found_by_kind_and_place(
    tmp_path: Path,
    generation: Path,
    change: Callable[[dict[str, Any]], None],
    code: str,
    place: str,
) -> None:
    edit_manifest(generation, change)
    assert (code, place) in found(tmp_path)


def test_a_forged_record_is_found(tmp_path: Path, generation: Path) -> None:
    edit_record(generation, lambda record: record["variants"][0]["payloads"].pop())
    assert ("seal-record", "/additional_metadata/sealcar") in found(tmp_path)


def test_a_manifest_that_is_none_is_one_finding(tmp_path: Path, generation: Path) -> None:
    (generation / "manifest.json").write_bytes(b'{"a": 1, "a": 2}')
    assert found(tmp_path) == [("schema", "manifest.json")]


def test_no_finding_says_where_the_store_lies(tmp_path: Path, generation: Path) -> None:
    shutil.rmtree(generation / "det")
    findings = validated(tmp_path).findings
    assert findings
    assert not [each for each in findings if str(tmp_path) in each.message + each.place]


def test_a_locked_daemon_checks_all_but_the_record(tmp_path: Path, generation: Path) -> None:
    edit_record(generation, lambda record: record["variants"][0]["payloads"].pop())
    (generation / "rec/onnx/model.onnx").unlink()
    with Running(tmp_path) as running:
        running.service.keys.lock()
        result = running.service.validator.validate(ME, "ocr")
        with pytest.raises(LockedError):
            running.service.resealer.reseal(ME, "ocr", "", None)
    assert not result.verified
    assert [(each.code, each.place) for each in result.findings] == [
        ("missing", "rec/onnx/model.onnx")
    ]


def test_a_generation_that_was_followed_is_checked_by_its_number(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_(payloads=FILES)
    shutil.copytree(tmp_path / "store/ocr/1/g/1", tmp_path / "store/ocr/1/g/2")
    assert found(tmp_path) == [("seal-record", "/additional_metadata/sealcar")]
    assert validated(tmp_path, generation=1).findings == ()
    with pytest.raises(NotFoundError):
        validated(tmp_path, generation=3)


def test_a_store_that_was_rolled_back_is_refused(tmp_path: Path, generation: Path) -> None:
    with Running(tmp_path) as running:
        running.import_(version="2", payloads=FILES)
    shutil.rmtree(generation.parent)
    (generation.parents[2] / "1" / "g" / "0").mkdir(parents=True)
    with pytest.raises(RolledBackError):
        validated(tmp_path, version="1")


def test_it_needs_the_right_to_verify(tmp_path: Path, generation: Path) -> None:
    grant = Grant(ME.uid, None, None, ("*",), None, frozenset({Right.LIST, Right.RESEAL}))
    with Running(tmp_path, policy=Policy((grant,))) as running, pytest.raises(DeniedError):
        running.service.validator.validate(ME, "ocr")
    assert generation.exists()
