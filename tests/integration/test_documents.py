"""What README and docs show is run, and what they list is compared with the code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import refresh_reference
from support import models
from support.daemon import Daemon, environment, run_command

from sealcar import errors
from sealcar.cli import main
from sealcar_server.access.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = ROOT.joinpath("README.md").read_text()
OPERATIONS = ROOT.joinpath("docs", "operations.md").read_text()
THREATS = ROOT.joinpath("docs", "threat-model.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = re.split(rf"^## {heading}$", text, flags=re.MULTILINE)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) < 150


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", document.read_text()):
        assert document.parent.joinpath(target).exists(), target


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = ROOT.joinpath("Makefile").read_text()
    named = re.findall(r"^    make (\w+)", README, re.MULTILINE)
    assert named == ["demo", "test"]
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.fixture
def short() -> Iterator[Path]:
    """Give a directory whose path is short enough for sockets far below it."""
    with tempfile.TemporaryDirectory(prefix="s-") as directory:
        yield Path(directory)


def test_the_commands_of_the_readme_work_as_they_stand(short: Path) -> None:
    (session,) = blocks(README, "console")
    commands = [line.removeprefix("$ ") for line in session.splitlines()]
    assert all(line.startswith("$ ") for line in session.splitlines())
    short.joinpath("detector.onnx").write_bytes(models.whole_model())
    script = "\n".join(["set -eu", "trap 'kill $!; wait' EXIT", *commands])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=short,
        env={**environment(), "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "imported ocr@1" in done.stdout
    assert "all authentic" in done.stdout


CHECK = """
from support import models
image = models.sample_input()["x"]
{load}
plain = answer
{compile}
(compiled,) = session.run(None, {{"x": image}})
assert abs(plain - compiled).max() < 0.05 * abs(plain).max(), (plain, compiled)
assert session.get_providers()[0] == "QNNExecutionProvider"
{alike}
(again,) = session.run(None, {{"x": image}})
assert (again == plain).all()
client.close()
"""


def test_the_python_of_the_readme_works_as_it_stands(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "detector.onnx"
    model.write_bytes(models.whole_model())
    socket = str(daemon.socket)
    done = run_command(
        *("import", str(model), "--name", "ocr", "--component", "det"), SEALCAR_SOCKET=socket
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("SEALCAR_SOCKET", socket)
    load, compile_, alike = blocks(README, "python")
    check = CHECK.format(load=load, compile=compile_, alike=alike)
    plain = str(tmp_path / "packages" / "ocr")
    assert main.run(["package", "new", plain, "--name", "ocr"]) == 0
    assert main.run(["package", "add", plain, "det/onnx", str(model)]) == 0
    pytest.importorskip("onnxruntime_qnn", reason="no wheel of the plugin for this machine")
    done = subprocess.run(
        [sys.executable, "-c", check],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_was_run_is_what_the_locks_hold() -> None:
    run = README.partition("## What was run")[2]
    (head, *cells) = re.findall(r"^\| .* \|$", run, re.MULTILINE)
    for number, lock in (("1.30", "ort130"), ("1.32", "ort132")):
        assert f"ONNX Runtime {number}" in head
        pinned = ROOT.joinpath("requirements", f"{lock}.txt").read_text()
        assert f"onnxruntime=={number}." in pinned
        for name, plugin in (("QNN", "qnn"), ("OpenVINO", "ep-openvino")):
            found = re.search(rf"^onnxruntime-{plugin}==(\d+\.\d+)", pinned, re.MULTILINE)
            assert found
            assert any(f"{name} {found[1]}" in cell for cell in cells)


@pytest.mark.parametrize("page", ["settings.md", "metrics.md"])
def test_what_a_page_says_of_settings_and_metrics_is_what_the_code_says(page: str) -> None:
    text = ROOT.joinpath("docs", page).read_text()
    assert refresh_reference.MADE.search(text)
    assert refresh_reference.made(text) == text, "the remedy is `make reference`"


def test_every_exit_code_is_described() -> None:
    codes = {int(cells[0]) for cells in rows(OPERATIONS, "Exit codes")}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SealcarError)
    }
    assert raised <= codes
    assert codes == {*range(9), 130}


def test_every_command_is_described() -> None:
    described = {shlex.split(cells[0].strip("`"))[1] for cells in rows(OPERATIONS, "Commands")}
    listed = run_command("--help").stdout.split("Commands:")[1].split("\n\n")[0]
    assert described == {line.split()[0] for line in listed.splitlines() if line.strip()}


def test_the_policy_that_is_shown_is_one(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    policies = [each for each in blocks(OPERATIONS, "toml") if each.startswith("[[")]
    assert len(policies) == 2
    for policy in policies:
        file.write_text(policy)
        file.chmod(0o600)
        assert Policy.load(file) != Policy(())


def test_the_completion_that_is_shown_is_one() -> None:
    (line,) = [each for each in blocks(OPERATIONS, "console") if "completion" in each]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", line.removeprefix("$ ") + "complete -p sealcar"],
        env={**environment(), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "_sealcar_completion" in done.stdout


def test_every_claim_names_tests_that_exist() -> None:
    named = re.findall(r"`(test_\w+)`", THREATS)
    assert len(named) > 40
    sources = "".join(path.read_text() for path in ROOT.glob("tests/*/test_*.py"))
    assert [name for name in named if f"def {name}(" not in sources] == []
    claims = [line for line in THREATS.split("## Claims")[1].splitlines() if line[:2] == "| "]
    assert all("`test_" in line for line in claims if line != "| claim | attacked by |")
