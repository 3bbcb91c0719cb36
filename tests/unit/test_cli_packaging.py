"""`sealcar package`: a package is made, shown, checked and saved without any daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result
from support.deep_folders import deep

from sealcar import errors, modelpackage
from sealcar.cli.packaging import package

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(package, [str(each) for each in arguments])


def done(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    return result.output


def refused(kind: type[errors.SealcarError], *arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, kind), result.exception
    return str(result.exception)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    root = tmp_path / "ocr"
    done("new", root, "--name", "ocr", "--version", "1.2")
    (tmp_path / "det.onnx").write_bytes(b"x" * 1500)
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "en.txt").write_text("a\n")
    cpu = ("--ep", "CPUExecutionProvider", "--device", "cpu")
    done("add", root, "det/cpu", tmp_path / "det.onnx", *cpu, "--asset", tmp_path / "words")
    return root


def test_a_package_grows_by_a_component_with_a_variant_and_an_asset(made: Path) -> None:
    found = modelpackage.open(made)
    variant = found.components["det"].variants["cpu"]
    assert (found.name, found.version, variant.ep) == ("ocr", "1.2", "CPUExecutionProvider")
    assert variant.directory == made / "det" / "cpu"
    assert variant.executor_info["ort"].value == {"model_file": "det.onnx"}
    assert list(found.shared_assets) == [done("hash", made.parent / "words").strip()]


def test_ls_and_tree_show_variants_files_and_sizes(made: Path) -> None:
    assert "det/cpu" in done("ls", made)
    assert json.loads(done("ls", made, "--json"))["package_name"] == "ocr"
    drawn = done("tree", made)
    for part in ("ocr 1.2", "cpu  (CPUExecutionProvider, cpu)  1.5 kB", "det.onnx", "en.txt"):
        assert part in drawn
    told = json.loads(done("tree", made, "--json"))
    (variant,) = told["components"][0]["variants"]
    assert (variant["ep"], variant["size"]) == ("CPUExecutionProvider", 1500)
    assert variant["executor_info"] == {"ort": {"model_file": "det.onnx"}}
    assert variant["files"] == [{"name": "det.onnx", "size": 1500}]
    assert told["shared_assets"][0]["files"] == [{"name": "en.txt", "size": 2}]


def test_validate_tells_errors_by_exit_code(made: Path) -> None:
    (uri,) = modelpackage.open(made).shared_assets
    (made / "shared_assets" / uri.replace(":", "-") / "en.txt").write_text("other")
    assert run("validate", made).exit_code == 6
    found = json.loads(run("validate", made, "--json").output)
    assert [item["code"] for item in found["errors"]] == ["ASSET_REHASH"]


def test_commit_saves_a_whole_copy(made: Path, tmp_path: Path) -> None:
    done("commit", made, tmp_path / "copy", "--dense")
    copy = modelpackage.open(tmp_path / "copy")
    assert (copy.root / "det" / "cpu" / "det.onnx").is_file()
    done("commit", made)
    refused(errors.WrongStateError, "commit", made, tmp_path / "copy")


def test_prune_clears_away_what_is_left_over(made: Path) -> None:
    left = made / "manifest.json.commit.0123456789abcdef"
    left.write_text("x")
    done("prune", made)
    assert not left.exists()


def test_a_variant_that_cannot_be_added_leaves_no_files(made: Path, tmp_path: Path) -> None:
    refused(errors.NotFoundError, "add", made, "det/npu", tmp_path / "det.onnx", "--asset", "none")
    assert not (made / "det" / "npu").exists()
    refused(errors.AlreadyExistsError, "add", made, "det/cpu", tmp_path / "det.onnx")
    refused(errors.InvalidNameError, "add", made, "../x", tmp_path / "det.onnx")
    assert list(modelpackage.open(made).components["det"].variants) == ["cpu"]


def test_what_is_no_package_is_told_so(tmp_path: Path) -> None:
    refused(errors.StorageError, "ls", tmp_path / "none")
    (tmp_path / "manifest.json").write_text("{")
    assert "line 1" in refused(errors.InvalidPackageError, "tree", tmp_path)


def test_validate_prints_one_object_for_scripts_and_a_line_for_people(made: Path) -> None:
    assert done("validate", made) == "0 errors, 0 warnings\n"
    (asset,) = (made / "shared_assets").iterdir()
    (asset / "en.txt").write_text("b\n")
    result = run("validate", made, "--json")
    assert result.exit_code == errors.DamagedError.exit_code
    assert [each["code"] for each in json.loads(result.stdout)["errors"]] == ["ASSET_REHASH"]
    assert "1 error" in run("validate", made).stdout


def test_a_kind_of_device_that_no_runtime_knows_is_refused(made: Path, tmp_path: Path) -> None:
    result = run("add", made, "det/gpu", tmp_path / "det.onnx", "--device", "gpuu")
    assert result.exit_code == click.UsageError.exit_code
    assert "'gpu'" in result.output
    assert not (made / "det" / "gpu").exists()


def test_directories_far_too_deep_are_told(made: Path) -> None:
    with deep(made / "det" / "cpu" / "deep"):
        for command in ("ls", "tree"):
            refused(errors.InvalidPackageError, command, made)
