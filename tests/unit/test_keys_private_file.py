from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sealcar.errors import ConfigurationError, KeyUnavailableError
from sealcar_server.keys import private_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_UID: Final = 4321
_PROGRAM: Final = """
import json, os, sys
from pathlib import Path
from sealcar.errors import SealcarError
from sealcar_server.keys import private_file

uid, files = json.load(sys.stdin)
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
found = {}
for file in files:
    try:
        with private_file.read_secret(Path(file), "PIN file") as secret:
            found[file] = bytes(secret.view).decode()
    except SealcarError as error:
        found[file] = str(error)
json.dump(found, sys.stdout)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sealcar-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.root
def test_a_mounted_secret_of_root_is_read_by_its_group_and_nothing_wider_is(
    open_folder: Path,
) -> None:
    expected = {
        ("root", 0o440): "1234",
        ("root", 0o640): "1234",
        ("own", 0o400): "1234",
        ("own", 0o600): "1234",
        ("root", 0o444): "mode 0444: chmod 600",
        ("root", 0o460): "mode 0460: chmod 600",
        ("own", 0o640): "mode 0640: chmod 600",
        ("own", 0o604): "mode 0604: chmod 600",
        ("other", 0o640): "belongs to uid 9876",
        ("root", 0o400): "Permission denied",
    }
    owners = {"root": 0, "own": _UID, "other": 9876}
    files = {}
    for (owner, mode), finding in expected.items():
        file = open_folder / f"{owner}-{mode:o}"
        file.write_text("1234\n")
        os.chown(file, owners[owner], _UID)
        file.chmod(mode)
        files[str(file)] = finding
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps([_UID, list(files)]),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    for path, finding in files.items():
        assert finding in found[path], path
        assert found[path] == "1234" or "1234" not in found[path]


def test_a_secret_is_what_the_file_holds_but_for_line_feeds_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "pin"
    file.touch(0o600)
    for text, secret in (
        (b"a b\n", b"a b"),
        (b" a\r\n\n", b" a"),
        (b"\na", b"\na"),
        (b"\0", b"\0"),
    ):
        file.write_bytes(text)
        with private_file.read_secret(file, "PIN file") as found:
            assert bytes(found.view) == secret


def test_a_mounted_secret_that_is_swapped_is_followed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "pin"
        file.touch(0o600)
        file.write_text(name)
    (tmp_path / "..data").symlink_to("old")
    (tmp_path / "pin").symlink_to("..data/pin")
    for name in ("old", "new"):
        (tmp_path / "..data").unlink()
        (tmp_path / "..data").symlink_to(name)
        with private_file.read_secret(tmp_path / "pin", "PIN file") as found:
            assert bytes(found.view).decode() == name


def test_what_is_no_secret_is_refused_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "pin"
    file.touch(0o600)
    file.write_bytes(b"s3cret" * 1000)
    with pytest.raises(ConfigurationError, match="is no PIN file: 6000 bytes") as caught:
        private_file.read_secret(file, "PIN file")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="must be a regular file"):
        private_file.read_secret(tmp_path, "PIN file")
    with pytest.raises(KeyUnavailableError, match="No such file"):
        private_file.read_secret(tmp_path / "none", "PIN file")
