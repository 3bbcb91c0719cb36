from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import (
    AlreadyExistsError,
    ConfigurationError,
    KeyRefusedError,
    KeyUnavailableError,
    StorageError,
)
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.provider import WrappedKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TITLE = "sealcar key-encryption keys, format 1\n"
ONE, TWO = "01" * 32, "fe" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kek"


@pytest.fixture
def provider(path: Path) -> Iterator[FileProvider]:
    made = FileProvider.create(path)
    yield made
    made.close()


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def wrapped(provider: FileProvider, context: bytes = b"context") -> WrappedKey:
    with SecretBuffer.copy_of(b"k" * 32) as key:
        return provider.wrap(key, context)


def test_a_new_key_file_is_private_complete_and_never_replaced(
    path: Path, provider: FileProvider
) -> None:
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.startswith(TITLE + "1 ")
    assert len(text) == len(TITLE) + 2 + 64 + 1
    assert provider.current_version() == "1"
    with pytest.raises(AlreadyExistsError, match="never replaced"):
        FileProvider.create(path)
    assert path.read_text() == text


def test_two_new_key_files_differ(tmp_path: Path) -> None:
    for name in ("a", "b"):
        FileProvider.create(tmp_path / name).close()
    assert (tmp_path / "a").read_text() != (tmp_path / "b").read_text()


def test_a_key_unwraps_for_its_context_only(provider: FileProvider) -> None:
    found = wrapped(provider)
    assert (found.version, len(found.blob)) == ("1", 60)
    with provider.unwrap(found, b"context") as key:
        assert bytes(key.view) == b"k" * 32
    forged = found.blob[:-1] + bytes([found.blob[-1] ^ 1])
    for blob, context in (
        (found.blob, b"other"),
        (forged, b"context"),
        (found.blob[:-1], b"context"),
        (b"", b"context"),
    ):
        with pytest.raises(KeyRefusedError, match="doesn't belong"):
            provider.unwrap(WrappedKey("1", blob), context)


def test_the_newest_version_wraps_and_older_ones_still_unwrap(path: Path) -> None:
    before = FileProvider(written(path, f"{TITLE}1 {ONE}\n"))
    old = wrapped(before)
    after = FileProvider(written(path, f"{TITLE}1 {ONE}\n12 {TWO}\n"))
    assert after.current_version() == "12"
    assert wrapped(after).version == "12"
    after.unwrap(old, b"context").close()
    # as when another daemon gave the file a version more
    before.unwrap(wrapped(after), b"context").close()
    assert before.current_version() == "12"
    with pytest.raises(KeyRefusedError, match="no version '13'"):
        before.unwrap(WrappedKey("13", old.blob), b"context")
    with pytest.raises(KeyRefusedError, match="doesn't belong"):
        after.unwrap(WrappedKey("12", old.blob), b"context")
    before.close()
    after.close()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o700 | 0o010])
def test_a_key_file_that_others_may_touch_is_refused_with_the_remedy(mode: int, path: Path) -> None:
    written(path, f"{TITLE}1 {ONE}\n", mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        FileProvider(path)


@pytest.mark.root
def test_a_key_file_of_another_user_is_refused(path: Path) -> None:
    written(path, f"{TITLE}1 {ONE}\n")
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigurationError, match="uid 12345"):
        FileProvider(path)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("", "0 bytes"),
        (TITLE, "38 bytes"),
        ("something else entirely, which is long enough\n", "doesn't begin"),
        (f"{TITLE}1 {ONE}", "is cut"),
        (f"{TITLE}1 {ONE}\n\n", "line 3"),
        (f"{TITLE}1 {ONE}\n1 {TWO}\n", "line 3"),
        (f"{TITLE}2 {ONE}\n1 {TWO}\n", "line 3"),
        (f"{TITLE}0 {ONE}\n", "line 2"),
        (f"{TITLE}01 {ONE}\n", "line 2"),
        (f"{TITLE}12345 {ONE}\n", "line 2"),
        (f"{TITLE}x {ONE}\n", "line 2"),
        (f"{TITLE}1  {ONE}\n", "line 2"),
        (f"{TITLE}1 {ONE} \n", "line 2"),
        (f"{TITLE}1 {ONE[:-1]}\n", "line 2"),
        (f"{TITLE}1 {ONE[:-1]}g\n", "line 2"),
        (f"{TITLE}1 {TWO.upper()}\n", "line 2"),
        (f"{TITLE}1 {ONE}\r\n", "line 2"),
    ],
)
def test_a_malformed_key_file_is_refused_by_line_and_never_quoted(
    text: str, finding: str, path: Path
) -> None:
    written(path, text)
    with pytest.raises(ConfigurationError, match=finding) as caught:
        FileProvider(path)
    assert ONE[:8] not in str(caught.value)
    assert TWO[:8] not in str(caught.value)


def test_a_link_is_followed_to_a_file_that_must_be_private_itself(
    path: Path, tmp_path: Path
) -> None:
    target = written(tmp_path / "target", f"{TITLE}1 {ONE}\n")
    path.symlink_to(target)
    FileProvider(path).close()
    target.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        FileProvider(path)


def test_directories_pipes_and_absent_files_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailableError, match="No such file"):
        FileProvider(path)
    with pytest.raises(ConfigurationError, match="regular"):
        FileProvider(tmp_path)
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(ConfigurationError, match="regular"):
        FileProvider(tmp_path / "fifo")
    with pytest.raises(StorageError, match="No such file"):
        FileProvider.create(tmp_path / "absent" / "kek")


def test_health_says_why_the_file_would_not_serve(path: Path, provider: FileProvider) -> None:
    provider.health()
    path.chmod(0o644)
    with pytest.raises(KeyUnavailableError, match="chmod 600"):
        provider.health()
    written(path, f"{TITLE}7 {ONE}\n")
    with pytest.raises(KeyUnavailableError, match="replaced"):
        provider.health()
    path.unlink()
    with pytest.raises(KeyUnavailableError, match="No such file"):
        provider.health()


def test_no_key_is_shown_by_anything(path: Path, provider: FileProvider) -> None:
    secret = path.read_text().split()[-1]
    found = wrapped(provider)
    shown = f"{provider!r} {vars(provider)!r} {found!r}"
    assert secret[:8] not in shown
    assert bytes.fromhex(secret)[:4].hex() not in shown
