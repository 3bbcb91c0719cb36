"""The commands against a real daemon: what people and scripts see, and exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import models
from support.daemon import Daemon, run_command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Give a model whose weights lie in a file beside it."""
    model, weights = models.external_model(256)
    folder = tmp_path / "source"
    folder.mkdir()
    folder.joinpath("det.onnx").write_bytes(model)
    folder.joinpath(models.EXTERNAL_FILE).write_bytes(weights)
    return folder / "det.onnx"


def sealcar(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, SEALCAR_SOCKET=str(daemon.socket))


def answer(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = sealcar(daemon, *arguments, "--json")
    assert done.returncode == code, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def test_a_model_is_imported_listed_inspected_and_verified(daemon: Daemon, source: Path) -> None:
    done = sealcar(daemon, "import", str(source), "--name", "ocr", "--component", "det")
    assert (done.returncode, done.stderr) == (0, "")
    assert "imported ocr@1, generation 1: 2 payloads" in done.stdout

    done = sealcar(daemon, "ls")
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("ocr")]
    assert row.split()[:4] == ["ocr", "1", "*", "1"]
    assert "unknown" not in sealcar(daemon, "ls", "unknown").stdout

    done = sealcar(daemon, "inspect", "ocr/det")
    for line in ("det", "onnx  (no provider named)  sealed", "versions: 1 (current)"):
        assert line in done.stdout
    assert models.EXTERNAL_FILE in done.stdout

    done = sealcar(daemon, "verify", "ocr@1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 payloads" in done.stdout
    assert "all authentic" in done.stdout


def test_scripts_get_the_same_as_one_object(daemon: Daemon, source: Path) -> None:
    size = source.stat().st_size + source.with_name(models.EXTERNAL_FILE).stat().st_size
    made = answer(daemon, "import", str(source), "--name", "ocr", "--version", "7")
    assert (made["name"], made["version"], made["generation"]) == ("ocr", "7", 1)
    assert made["size"] == size

    (listed,) = answer(daemon, "ls")["packages"]
    assert (listed["name"], listed["current"], listed["size"]) == ("ocr", True, size)

    seen = answer(daemon, "inspect", "ocr@7/main/onnx")
    assert seen["package_id"] == made["package_id"]
    (variant,) = seen["variants"]
    assert {each["kind"] for each in variant["payloads"]} == {"model", "initializers"}

    (payload,) = answer(daemon, "inspect", "ocr/main/onnx/det.onnx")["variants"][0]["payloads"]
    assert payload["size"] == source.stat().st_size

    verified = answer(daemon, "verify", "ocr")
    assert (verified["payloads"], verified["size"]) == (2, size)


def test_a_package_is_imported_with_all_its_variants(daemon: Daemon) -> None:
    package = Path(__file__).parents[1] / "data" / "packages" / "valid" / "10_multi_variant"
    made = answer(daemon, "import", str(package), "--name", "many")
    assert made["payloads"] == 5
    seen = answer(daemon, "inspect", "many")
    assert len(seen["variants"]) == 5
    assert all(each["sealed"] for each in seen["variants"])
    assert answer(daemon, "verify", "many")["payloads"] == 5


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a daemon with a package, which nobody changes."""
    folder = tmp_path_factory.mktemp("asked")
    model, weights = models.external_model(256)
    folder.joinpath("det.onnx").write_bytes(model)
    folder.joinpath(models.EXTERNAL_FILE).write_bytes(weights)
    with Daemon(folder) as daemon:
        answer(daemon, "import", str(folder / "det.onnx"), "--name", "ocr")
        yield daemon


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("inspect", "unknown"), 1, "NotFoundError"),
        (("inspect", "ocr/nothing"), 1, "NotFoundError"),
        (("inspect", "ocr/main/onnx/nothing"), 1, "NotFoundError"),
        (("inspect", "OCR"), 2, "InvalidNameError"),
        (("inspect", "ocr/../x"), 2, "InvalidNameError"),
        (("verify", "ocr/main"), 2, "InvalidRequestError"),
        (("verify", "ocr@2"), 1, "NotFoundError"),
        (("ls", "--timeout", "0"), 2, "BadParameter"),
    ],
)
def test_a_wrong_question_has_its_exit_code(
    asked: Daemon, arguments: tuple[str, ...], code: int, kind: str
) -> None:
    assert answer(asked, *arguments, code=code)["error"]["kind"] == kind


def test_an_import_of_a_version_that_exists_is_refused(daemon: Daemon, source: Path) -> None:
    answer(daemon, "import", str(source), "--name", "ocr")
    again = answer(daemon, "import", str(source), "--name", "ocr", code=1)
    assert again["error"]["kind"] == "AlreadyExistsError"
    assert answer(daemon, "ls")["packages"][0]["generation"] == 1


def test_what_is_no_model_is_refused_and_leaves_nothing(daemon: Daemon, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.onnx"
    nothing.write_bytes(b"\xff" * 100)
    refused = answer(daemon, "import", str(nothing), "--name", "ocr", code=1)
    assert refused["error"]["kind"] == "InvalidPackageError"
    assert answer(daemon, "ls")["packages"] == []


def test_a_changed_byte_is_exit_code_6_and_names_the_payload(daemon: Daemon, source: Path) -> None:
    answer(daemon, "import", str(source), "--name", "ocr")
    (file,) = daemon.store.rglob(models.EXTERNAL_FILE)
    file.chmod(0o600)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    done = sealcar(daemon, "verify", "ocr")
    assert done.returncode == 6
    assert done.stderr.count("\n") == 1
    assert models.EXTERNAL_FILE in done.stderr


def test_without_the_right_to_verify_it_is_exit_code_5(tmp_path: Path, source: Path) -> None:
    daemon = Daemon(tmp_path)
    rights = daemon.policy.read_text().replace(', "verify"', "")
    daemon.policy.write_text(rights)
    with daemon:
        answer(daemon, "import", str(source), "--name", "ocr")
        assert answer(daemon, "verify", "ocr", code=5)["error"]["kind"] == "DeniedError"


def test_without_a_daemon_it_is_exit_code_4_with_a_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    done = run_command("ls", "--socket", str(tmp_path), "--timeout", "0.3")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert str(tmp_path) in done.stderr


def test_a_daemon_of_another_uid_is_not_talked_to(daemon: Daemon) -> None:
    done = run_command(
        *("ls", "--timeout", "0.5"),
        SEALCAR_SOCKET=str(daemon.socket),
        SEALCAR_PEER_UID=str(os.getuid() + 1),
    )
    assert done.returncode == 4
    assert "uid" in done.stderr


def test_status_says_how_the_daemon_and_its_keys_are(daemon: Daemon) -> None:
    done = sealcar(daemon, "status")
    assert done.returncode == 0
    assert "serving" in done.stdout
    assert "NONE" in done.stdout

    state = answer(daemon, "status", "--admin", str(daemon.admin))
    assert (state["serving"], state["isolation"]) == (True, "none")
    (key,) = state["keys"]
    assert (key["alias"], key["provider"], key["available"]) == ("default", "file", True)

    done = sealcar(daemon, "status", "--admin", str(daemon.admin))
    assert "default" in done.stdout
    assert "available" in done.stdout


def test_the_shell_completes_commands() -> None:
    done = run_command(_SEALCAR_COMPLETE="bash_complete", COMP_WORDS="sealcar in", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,init", "plain,inspect"]
