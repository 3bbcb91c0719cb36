from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sealcar.errors import ConfigurationError, ConflictError, KeyRefusedError, KeyUnavailableError
from sealcar_server.keys import key_store, passphrase
from sealcar_server.keys.file import FileProvider
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from pathlib import Path

PHRASE = "correct horse battery staple"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passphrase, "_COST", (14, 8, 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kek"


def phrase_in(tmp_path: Path, text: str = PHRASE, name: str = "phrase") -> Path:
    file = tmp_path / name
    file.touch(0o600)
    file.write_text(text)
    return file


def test_a_key_file_under_a_passphrase_shows_no_key(path: Path, tmp_path: Path) -> None:
    secret = phrase_in(tmp_path, PHRASE + "\n")
    provider = FileProvider.create(path, secret)
    with SecretBuffer.copy_of(b"k" * 32) as key:
        found = provider.wrap(key, b"c")
    kek = bytes(provider._file.keys["1"].view)
    assert kek.hex() not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    again = FileProvider(path, phrase_in(tmp_path, name="without-line-feed"))
    again.unwrap(found, b"c").close()
    again.health()
    for one in (provider, again):
        one.close()


def test_another_passphrase_or_a_changed_file_opens_nothing(path: Path, tmp_path: Path) -> None:
    secret = phrase_in(tmp_path)
    key_store.create(path, secret)
    with pytest.raises(KeyRefusedError, match="doesn't open") as caught:
        FileProvider(path, phrase_in(tmp_path, "correct horse battery stable", "wrong"))
    assert "stable" not in str(caught.value)
    text = path.read_bytes()
    for at in (len(passphrase.TITLE) + 20, len(text) - 100, len(text) - 2):
        digit = b"0" if text[at : at + 1] != b"0" else b"1"
        path.write_bytes(text[:at] + digit + text[at + 1 :])
        with pytest.raises(KeyRefusedError, match="doesn't open"):
            FileProvider(path, secret)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scrypt 14 8 1", "scrypt 13 8 1"),
        ("scrypt 14 8 1", "scrypt 30 8 1"),
        ("scrypt 14 8 1", "scrypt 14 99 1"),
        ("scrypt 14 8 1", "scrypt 14 8 2"),
        ("scrypt 14 8 1", "bcrypt 14 8 1"),
        ("scrypt 14 8 1", "scrypt 14 8"),
        ("\n", "\r\n"),
    ],
)
def test_a_form_or_cost_out_of_range_is_refused_before_it_costs(
    path: Path, tmp_path: Path, old: str, new: str
) -> None:
    secret = phrase_in(tmp_path)
    key_store.create(path, secret)
    title, rest = path.read_text().split("\n", 1)
    path.write_bytes((title + "\n" + rest.replace(old, new)).encode())
    with pytest.raises(ConfigurationError, match=r"of the form|out of range"):
        FileProvider(path, secret)


def test_the_passphrase_is_asked_for_given_in_vain_or_too_short(path: Path, tmp_path: Path) -> None:
    secret = phrase_in(tmp_path)
    with pytest.raises(ConfigurationError, match="at least 12 bytes"):
        FileProvider.create(path, phrase_in(tmp_path, "short", "short"))
    assert not path.exists()
    key_store.create(path, secret)
    with pytest.raises(ConfigurationError, match="secret = "):
        FileProvider(path)
    key_store.create(tmp_path / "bare", None)
    with pytest.raises(ConfigurationError, match="under no passphrase"):
        FileProvider(tmp_path / "bare", secret)


@pytest.mark.parametrize("text", ["", "\n", "\r\n\n"])
def test_an_empty_passphrase_file_is_refused(path: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is empty|is no passphrase"):
        FileProvider.create(path, phrase_in(tmp_path, text))


def test_a_passphrase_file_that_others_can_read_is_refused(path: Path, tmp_path: Path) -> None:
    secret = phrase_in(tmp_path)
    secret.chmod(0o604)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        FileProvider.create(path, secret)
    secret.unlink()
    with pytest.raises(KeyUnavailableError, match="No such file"):
        FileProvider.create(path, secret)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_new_version_wraps_once_the_running_provider_looks_again(
    path: Path, tmp_path: Path, *, sealed: bool
) -> None:
    secret = phrase_in(tmp_path) if sealed else None
    provider = FileProvider.create(path, secret)
    with SecretBuffer.copy_of(b"k" * 32) as key:
        old = provider.wrap(key, b"c")
        assert key_store.add_version(path, secret) == "2"
        assert provider.current_version() == "1"
        provider.health()
        assert provider.wrap(key, b"c").version == "2"
    provider.unwrap(old, b"c").close()
    assert provider.rewrap(old, b"c").version == "2"
    assert [file.name for file in tmp_path.iterdir() if "new" in file.name] == []
    provider.close()


def test_what_a_killed_rotation_left_is_no_obstacle_and_two_at_once_are_refused(
    path: Path, tmp_path: Path
) -> None:
    key_store.create(path, None)
    (tmp_path / ".kek.new").write_text("half")
    assert key_store.add_version(path, None) == "2"
    with key_store._alone(path), pytest.raises(ConflictError, match="somebody else"):
        key_store.add_version(path, None)
    assert key_store.add_version(path, None) == "3"


def test_versions_end_with_an_error_not_with_a_broken_file(path: Path) -> None:
    path.touch(0o600)
    path.write_text(f"sealcar key-encryption keys, format 1\n9999 {'01' * 32}\n")
    with pytest.raises(ConfigurationError, match="all its versions"):
        key_store.add_version(path, None)
    FileProvider(path).close()
