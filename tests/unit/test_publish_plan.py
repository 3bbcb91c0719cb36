"""What an import is planned to send."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.onnx_models import ep_context, inline, located, model, raw

from sealcar import publish
from sealcar.errors import (
    ExhaustedError,
    InvalidNameError,
    InvalidPackageError,
    InvalidRequestError,
)
from sealcar.publish.manifests import MAX_MANIFEST

BIG = range(100_000)


def names(plan: publish.ImportPlan) -> list[tuple[str, str, str, str]]:
    return [(item.component, item.variant, item.name, item.kind) for item in plan.payloads]


def content(plan: publish.ImportPlan) -> dict[str, bytes]:
    found = {}
    for item in plan.payloads:
        pieces = list(item.chunks())
        assert all(0 < len(piece) <= 1 << 20 for piece in pieces)
        found[item.name] = b"".join(pieces)
        assert len(found[item.name]) == item.size
    assert plan.size == sum(map(len, found.values()))
    return found


def test_a_bare_model_becomes_a_package_of_one_variant(tmp_path: Path) -> None:
    path = tmp_path / "My-Model.onnx"
    path.write_bytes(raw(model(inline("W", [1, 2]))))
    with publish.plan(path) as plan:
        assert (plan.name, plan.version) == ("my-model", "")
        assert names(plan) == [("main", "onnx", "My-Model.onnx", "model")]
        assert content(plan) == {"My-Model.onnx": path.read_bytes()}
        assert json.loads(plan.manifest_json) == {
            "schema_version": "1.0",
            "package_name": "my-model",
            "layout": "portable",
            "components": {
                "main": {
                    "variants": {
                        "onnx": {
                            "variant_directory": "main/onnx",
                            "executor_info": {"ort": {"model_file": "My-Model.onnx"}},
                        }
                    }
                }
            },
        }


def test_names_given_are_the_names_taken(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(raw(model()))
    with publish.plan(
        tmp_path / "m.onnx", name="n", version="2", component="c", variant="v"
    ) as plan:
        assert (plan.name, plan.version) == ("n", "2")
        assert names(plan) == [("c", "v", "m.onnx", "model")]
        manifest = json.loads(plan.manifest_json)
        assert manifest["package_version"] == "2"
        assert manifest["components"]["c"]["variants"]["v"]["variant_directory"] == "c/v"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../x"},
        {"name": ""},
        {"version": "A"},
        {"component": "a/b"},
        {"component": "shared_assets"},
        {"variant": ""},
    ],
)
def test_a_name_that_breaks_a_rule_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "m.onnx").write_bytes(raw(model()))
    with pytest.raises(InvalidNameError):
        publish.plan(tmp_path / "m.onnx", **wrong)


def test_a_source_that_suggests_no_name_asks_for_one(tmp_path: Path) -> None:
    (tmp_path / "größe.onnx").write_bytes(raw(model()))
    with pytest.raises(InvalidRequestError, match="give one"):
        publish.plan(tmp_path / "größe.onnx")


def test_only_what_the_model_refers_to_comes_along(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(64))
    (tmp_path / "m_qnn.bin").write_bytes(b"blob")
    (tmp_path / "notes.txt").write_bytes(b"private")
    node = ep_context(embed_mode=0, ep_cache_context="m_qnn.bin", main_context=1)
    (tmp_path / "m.onnx").write_bytes(raw(model(located("w.bin"), nodes=[node])))
    with publish.plan(tmp_path / "m.onnx") as plan:
        assert [(item.name, item.kind) for item in plan.payloads] == [
            ("m.onnx", "model"),
            ("w.bin", "initializers"),
            ("m_qnn.bin", "blob"),
        ]
        assert content(plan)["m_qnn.bin"] == b"blob"


def test_big_initializers_move_into_a_payload_beside_the_model(tmp_path: Path) -> None:
    proto = model(inline("W", BIG), inline("V", [1] * 100_000))
    (tmp_path / "m.onnx").write_bytes(raw(proto))
    with publish.plan(tmp_path / "m.onnx") as plan:
        assert names(plan)[1] == ("main", "onnx", "m.onnx.data", "initializers")
        found = content(plan)
    for name, data in found.items():
        (tmp_path / name).write_bytes(data)
    loaded = onnx.load(tmp_path / "m.onnx")
    assert [tensor.raw_data for tensor in loaded.graph.initializer] == [
        tensor.raw_data for tensor in proto.graph.initializer
    ]


def test_big_initializers_stay_in_the_model_if_the_publisher_wants_that(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(raw(model(inline("W", BIG))))
    package(tmp_path, components={"c": {"variants": {"v": {"variant_directory": "v"}}}})
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "m.onnx").write_bytes(raw(model(inline("W", BIG))))
    for source in (tmp_path / "m.onnx", tmp_path):
        with publish.plan(source, name="x", keep_inline=True) as plan:
            assert content(plan) == {"m.onnx": (tmp_path / "m.onnx").read_bytes()}


def test_a_model_of_the_runtimes_own_format_comes_as_it_is(tmp_path: Path) -> None:
    data = b"\x1c\0\0\0ORTM" + bytes(100_000)
    path = tmp_path / "m.ort"
    path.write_bytes(data)
    with publish.plan(path) as plan:
        assert names(plan) == [("main", "onnx", "m.ort", "model")]
        assert content(plan) == {"m.ort": data}
        assert '"model_file":"m.ort"' in plan.manifest_json


def test_in_a_package_such_models_are_models_too_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    for name in ("a.ort", "b.onnx", "c.bin"):
        (tmp_path / "v" / name).write_bytes(b"\x1c\0\0\0ORTM" + bytes(100))
    info = {"ort": {"model_file": "c.bin"}}
    package(tmp_path, components={"c": {"variants": {"v": {"executor_info": info}}}})
    with publish.plan(tmp_path, name="x") as plan:
        assert {item.name: item.kind for item in plan.payloads} == dict.fromkeys(
            ("a.ort", "b.onnx", "c.bin"), "model"
        )


def test_a_file_that_only_calls_itself_such_a_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.ort"
    path.write_bytes(raw(model()))
    with pytest.raises(InvalidPackageError, match="own format"):
        publish.plan(path)


def test_a_model_that_was_named_by_the_caller_may_have_more_names(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(raw(model()))
    (tmp_path / "cache").hardlink_to(path)
    with publish.plan(path) as plan:
        assert len(plan.payloads) == 1


def test_a_model_behind_a_link_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(raw(model()))
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    with pytest.raises(InvalidPackageError, match="put the file itself there"):
        publish.plan(tmp_path / "link.onnx")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_closing_a_plan_closes_its_files(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(raw(model()))
    before = open_files()
    with publish.plan(tmp_path / "m.onnx"):
        assert open_files() > before
    assert open_files() == before


def package(root: Path, **members: Any) -> Path:  # noqa: ANN401  (any JSON)
    manifest = {"schema_version": "1.0"} | members
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


def test_a_package_comes_whole_with_everything_inline(tmp_path: Path) -> None:
    directory = tmp_path / "det" / "cpu"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "m.onnx").write_bytes(raw(model(located("w.bin"))))
    (directory / "sub" / "w.bin").write_bytes(bytes(16))
    (directory / "tokens.txt").write_text("a b")
    (directory / "ort.json").write_text('{"model_file": "sub/m.onnx"}')
    body = {"ep": "CPUExecutionProvider", "executor_info": {"ort": "ort.json", "own": {"k": 1.5}}}
    (tmp_path / "det" / "component.json").write_text(json.dumps({"variants": {"cpu": body}}))
    package(
        tmp_path,
        components={"det": "det"},
        package_name="ocr",
        package_version="1.2",
        additional_metadata={"z": [1, None]},
    )
    with publish.plan(tmp_path) as plan:
        assert plan.name == "ocr"
        assert names(plan) == [
            ("det", "cpu", "sub/m.onnx", "model"),
            ("det", "cpu", "sub/w.bin", "initializers"),
            ("det", "cpu", "tokens.txt", "other"),
        ]
        content(plan)
        assert json.loads(plan.manifest_json) == {
            "schema_version": "1.0",
            "package_name": "ocr",
            "package_version": "1.2",
            "additional_metadata": {"z": [1, None]},
            "layout": "portable",
            "components": {
                "det": {
                    "variants": {
                        "cpu": {
                            "ep": "CPUExecutionProvider",
                            "variant_directory": "det/cpu",
                            "executor_info": {
                                "ort": {"model_file": "sub/m.onnx"},
                                "own": {"k": 1.5},
                            },
                        }
                    }
                }
            },
        }


def test_moved_initializers_take_a_free_name(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "m.onnx").write_bytes(raw(model(inline("W", BIG))))
    (tmp_path / "v" / "M.ONNX.data").write_bytes(b"taken")
    with publish.plan(
        package(tmp_path, components={"c": {"variants": {"v": {}}}}), name="x"
    ) as plan:
        assert [item.name for item in plan.payloads] == ["m.onnx", "m.onnx.data2", "M.ONNX.data"]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"layout": "installed"}, "portable"),
        ({"schema_version": "1.1"}, "newer minor"),
        ({"shared_assets": {"sha256:" + "0" * 64: "a"}}, "shared asset sha256:0+: 'a' does not"),
        ({"additional_metadata": {"sealcar": {}}}, "sealed already"),
        ({"components": {"c": {"variants": {"v": {}, "V": {}}}}}, "only case"),
        ({"components": {"c": {"variants": {"gone": {}}}}}, "no directory"),
        ({"components": {}}, "no files"),
        ({"unknown": 1}, "unknown field"),
    ],
)
def test_a_package_that_cannot_be_sealed_as_it_is_is_refused_with_the_reason(
    tmp_path: Path, members: dict[str, Any], reason: str
) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "V").mkdir()
    package(tmp_path, **{"components": {"c": {"variants": {"v": {}}}}} | members)
    with pytest.raises(InvalidPackageError, match=reason):
        publish.plan(tmp_path, name="x")


def test_a_directory_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPackageError, match="manifest"):
        publish.plan(tmp_path)


def test_a_manifest_that_no_message_holds_is_refused_before_anything_is_sent_of_a_package(
    tmp_path: Path,
) -> None:
    body = {"variants": {"v": {"variant_directory": "v"}}}
    root = package(tmp_path, components={"c": body}, description="x" * MAX_MANIFEST)
    (root / "v").mkdir()
    (root / "v" / "x").write_text("x")
    with pytest.raises(InvalidPackageError, match="manifest"):
        publish.plan(root)


def test_duplicate_keys_in_a_manifest_are_refused(tmp_path: Path) -> None:
    text = '{"schema_version":"1.0","components":{},"components":{}}'
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InvalidPackageError, match="twice"):
        publish.plan(tmp_path)


def test_more_files_than_the_process_may_open_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    for index in range(60):
        (tmp_path / "v" / str(index)).write_bytes(b"x")
    package(tmp_path, components={"c": {"variants": {"v": {}}}})
    before = open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, hard))
    try:
        with pytest.raises(ExhaustedError, match="ulimit"):
            publish.plan(tmp_path, name="x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_files() == before
