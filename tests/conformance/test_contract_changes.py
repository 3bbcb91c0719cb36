"""What `make lint` says of changes to proto/: a later daemon still speaks with an older client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAYLOADS: Final = "proto/sealcar/v1/payloads.proto"
pytestmark = pytest.mark.skipif(
    any(shutil.which(each) is None for each in ("git", "make")), reason="git or make is missing"
)


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Return a tree whose contract is that of its last release, with a commit since."""
    for name in ("proto", "client/c", "client/sealcar/native", "tests/native"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("Makefile", "buf.yaml", "pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "proto", "buf.yaml")
    git(tmp_path, "commit", "-q", "-m", "released")
    git(tmp_path, "tag", "v1.0.0")
    return tmp_path


def change(tree: Path, old: str, new: str) -> None:
    """Change the contract, and commit that: what counts is the release."""
    path = tree / PAYLOADS
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    git(tree, "commit", "-q", "-a", "-m", "changed")


def looked_at(tree: Path) -> str:
    """Run those commands of `make lint` that look at the contract; return what they find."""
    commands = subprocess.run(
        ["make", "-n", "-o", ".venv/.made", "lint"],  # noqa: S607
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    looks = [each for each in commands if "/buf " in each]
    assert len(looks) == 2
    done = [
        subprocess.run(
            ["/bin/sh", "-c", each], cwd=tree, capture_output=True, text=True, check=False
        )
        for each in looks
    ]
    assert all(bool(each.stdout) == (each.returncode != 0) for each in done), done
    return "".join(each.stdout for each in done)


def test_what_only_adds_passes(released: Path) -> None:
    change(
        released,
        "message BeginRequest {",
        "message BeginRequest {\n  // What it's for.\n  string purpose = 99;",
    )
    assert looked_at(released) == ""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("rpc Begin(", "rpc Start(", 'Previously present RPC "Begin"'),
        (
            "uint64 offset = 3",
            "uint64 offset = 5",
            'Previously present field "3" with name "offset"',
        ),
        ("uint64 offset = 3", "int64 offset = 3", 'changed type from "uint64" to "int64"'),
        ("uint64 offset = 3", "uint64 first = 3", 'changed name from "offset" to "first"'),
    ],
)
def test_what_an_older_client_would_notice_is_found(
    old: str, new: str, found: str, released: Path
) -> None:
    change(released, old, new)
    assert found in looked_at(released)


def test_a_field_without_a_comment_is_found(released: Path) -> None:
    change(released, "message BeginRequest {", "message BeginRequest {\n  string purpose = 99;")
    assert 'Field "purpose" should have a non-empty comment' in looked_at(released)
