"""`sealcar policy`: what people and scripts see, and exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.daemon import run_command

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

POLICY = """
[[grant]]
uid = 1000
packages = ["ocr", "det-*"]
components = ["det"]
rights = ["read"]

[[grant]]
uid = 1000
listener = "tenant-a"
packages = ["*"]
rights = ["list", "verify"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    path.chmod(0o600)
    return path


def explain(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("policy", "explain", "--file", str(file), *arguments)


def test_check_shows_every_grant(file: Path) -> None:
    done = run_command("policy", "check", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{file}: 2 grants"
    assert '1: uid = 1000, packages = ["ocr", "det-*"], components = ["det"]' in done.stdout


def test_check_names_what_is_wrong_and_where(file: Path) -> None:
    file.write_text(POLICY + '\n[[grant]]\nuid = 1\npackages = ["x"]\nrights = ["admin"]')
    done = run_command("policy", "check", str(file))
    assert done.returncode == 2
    assert "grant 3: rights: 'admin' is no right" in done.stderr


def test_explain_prints_the_grant_that_decides(file: Path) -> None:
    done = explain(file, "--uid", "1000", "--gid", "5", "read", "ocr/det")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("yes: uid 1000, gid 5, listener default, right 'read'")
    assert f"decided by grant 1 of {file}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (("--uid", "1", "read", "ocr/det"), ["no grant is about this caller", "unknown package"]),
        (("--uid", "1000", "read", "ocr/rec"), ["grant 1 gives it for some components"]),
        (("--uid", "1000", "read", "ocr"), ["not for the whole package", "right is missing"]),
        (("--uid", "1000", "write", "ocr/det"), ["grant 1 is about caller and package, but"]),
        (("--uid", "1000", "read", "else/det"), ["not about this package", "unknown package"]),
        (
            ("--uid", "1000", "--listener", "tenant-a", "read", "else/det"),
            ["grant 2 is about caller and package, but doesn't give 'read'", "right is missing"],
        ),
        (("--uid", "65534", "read", "ocr/det"), ["can't name"]),
    ],
)
def test_explain_says_why_not(file: Path, arguments: tuple[str, ...], reasons: list[str]) -> None:
    done = explain(file, *arguments)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("no: ")
    for reason in reasons:
        assert reason in done.stdout


def test_explain_finds_the_policy_that_the_settings_name(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    assert run_command("init", str(folder)).returncode == 0
    config = ("--config", str(folder / "sealcar.toml"))
    done = run_command("policy", "explain", *config, "--uid", "1", "read", "ocr")
    assert done.returncode == 1
    assert str(folder / "policy.toml") in done.stdout


def test_explain_refuses_what_a_policy_does_not_know(file: Path) -> None:
    done = explain(file, "--uid", "1000", "read", "ocr/det/qnn")
    assert done.returncode == 2
    assert "nothing finer" in done.stderr


def test_pins_and_quotas_are_shown_and_explained(file: Path) -> None:
    file.write_text(
        POLICY
        + """
[[pin]]
package = "ocr"
version = "1.*"
min_generation = 7

[[quota]]
packages = ["o*"]
bytes = "50GiB"
"""
    )
    done = run_command("policy", "check", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{file}: 2 grants, 1 pin, 1 quota"
    pin = 'package = "ocr", version = "1.*", min_generation = 7'
    assert f"pin 1: {pin}" in done.stdout
    assert f'quota 1: packages = ["o*"], bytes = {50 << 30}' in done.stdout
    for address, shown in {"ocr/det": True, "ocr@1.2/det": True, "ocr@2/det": False}.items():
        done = explain(file, "--uid", "1000", "read", address)
        assert done.returncode == 0, done.stderr
        assert (f"pin 1 lets no older generation be opened: {pin}" in done.stdout) is shown
        assert "quota 1" not in done.stdout
