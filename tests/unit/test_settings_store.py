"""What the settings may say of a bucket, and what they are told if they say it wrongly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sealcar.errors import ConfigurationError
from sealcar_server import bucket_access
from sealcar_server.settings_store import Store, bucket_name, region_name
from sealcar_server.store.bucket.connection import Place, connect

HERE = Path("/")


@pytest.mark.parametrize(
    ("text", "name", "prefix"),
    [
        ("s3://models", "models", ""),
        ("s3://models/", "models", ""),
        ("s3://my.models-1/a/b-c_d.e/", "my.models-1", "a/b-c_d.e"),
    ],
)
def test_a_bucket_is_a_name_and_perhaps_a_prefix(text: str, name: str, prefix: str) -> None:
    found = bucket_name().read(text, HERE)
    assert found is not None
    assert (found.name, found.prefix) == (name, prefix)
    assert bucket_name().read(str(found), HERE) == found


@pytest.mark.parametrize(
    "text",
    [
        "models",
        "s3:models",
        "s3://",
        "s3://M",
        "s3://a",
        "s3://user:secret@models",
        "s3://models/../x",
        "s3://models/a//b",
        "s3://models/.a",
        "s3://models/a b",
        "s3://models/a?x=1",
        "s3://models/" + "a" * 257,
        "https://models.s3.amazonaws.com",
    ],
)
def test_what_is_no_bucket_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        bucket_name().read(text, HERE)


def test_no_bucket_is_said_as_off() -> None:
    assert bucket_name().read("off", HERE) is None
    with pytest.raises(ValueError, match="none"):
        region_name().read("eu central", HERE)


def store(tmp_path: Path, **values: object) -> Store:
    path = tmp_path / "store"
    path.mkdir(mode=0o700, exist_ok=True)
    return Store(path=path, **values)  # type: ignore[arg-type]  # each test's own


def of_bucket(tmp_path: Path, **values: object) -> Store:
    return store(tmp_path, bucket=bucket_name().read("s3://models/a", HERE), **values)


def test_what_is_of_a_bucket_needs_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="endpoint is of a bucket"):
        bucket_access.open_store(store(tmp_path, endpoint="https://s3.example"))


def test_an_endpoint_without_tls_is_said_twice(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="allow_http = true"):
        bucket_access.open_store(of_bucket(tmp_path, endpoint="http://s3.example"))
    bucket_access.check(of_bucket(tmp_path, endpoint="http://s3.example", allow_http=True))


def test_a_directory_with_a_store_of_its_own_is_no_place_for_copies(tmp_path: Path) -> None:
    section = of_bucket(tmp_path)
    (section.path / "store.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="holds a store of its own"):
        bucket_access.open_store(section)


@pytest.mark.parametrize(
    "text", ["", "[other]\n", "[default]\naws_access_key_id = x\n", "SECRET", "[default\nSECRET"]
)
def test_credentials_that_are_none_are_told_without_being_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "credentials"
    file.touch(0o600)
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        bucket_access.place_of(of_bucket(tmp_path, credentials=file))
    assert str(file) in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_credentials_that_others_can_read_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        bucket_access.place_of(of_bucket(tmp_path, credentials=file))
    file.chmod(0o600)
    place = bucket_access.place_of(of_bucket(tmp_path, credentials=file))
    assert place.credentials is not None
    found = place.credentials()
    assert (found["access_key_id"], found["secret_access_key"]) == ("a", "b")
    assert "aws_secret" not in repr(place)


def test_without_the_library_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'sealcar\[server,s3\]'"):
        connect(Place("models"))
