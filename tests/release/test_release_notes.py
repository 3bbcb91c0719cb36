"""A release says what it is, everywhere the same, and breaks nobody's client."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
VERSION: Final = str(PROJECT["version"])
# where else the version is said
SAID: Final = {
    "Dockerfile": r"ARG VERSION=(.*)",
    "deploy/helm/sealcar/Chart.yaml": r'(?:version: |appVersion: )"?([\d.]+)',
    "deploy/kubernetes/base/kustomization.yaml": r'newTag: "(.*)"',
    "deploy/kubernetes/overlays/node/kustomization.yaml": r'newTag: "(.*)"',
}


def git(*arguments: str) -> str:
    """Return what git says, or nothing if it can't."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def test_the_changelog_begins_with_this_version() -> None:
    entries = re.split(r"^## ", ROOT.joinpath("CHANGELOG.md").read_text(), flags=re.MULTILINE)
    title, _, text = entries[1].partition("\n")
    version, _, when = title.partition(" ")
    assert version == VERSION
    assert len(re.findall(r"^- \S", text, re.MULTILINE)) > 0
    # what is tagged is released, and on a day
    released = git("describe", "--tags", "--exact-match")
    if released:
        assert released == f"v{VERSION}"
        assert re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", when)
    else:
        assert when == "(unreleased)"


@pytest.mark.parametrize("name", SAID)
def test_the_version_is_the_same_everywhere(name: str) -> None:
    assert set(re.findall(SAID[name], ROOT.joinpath(name).read_text())) == {VERSION}


def test_clients_of_the_last_release_understand_this_one() -> None:
    last = git("describe", "--tags", "--abbrev=0", f"--exclude=v{VERSION}")
    if not last:
        pytest.skip("nothing was released before: there is nothing that the protos could break")
    buf = str(Path(sys.executable).with_name("buf"))
    command = [buf, "breaking", "--against", f".git#tag={last}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
