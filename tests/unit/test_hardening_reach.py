"""What Landlock leaves reachable is what the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sealcar_server.hardening import reach
from sealcar_server.hardening.landlock import CHANGE, READ, Right
from sealcar_server.settings_reading import read

LEAST = """
[daemon]
state_dir = "state"
[listen.default]
dir = "run"
[admin]
dir = "admin"
[store]
path = "store"
[keys.default]
uri = "file:keys/kek"
[policy]
file = "policy/policy.toml"
"""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", *reach._AWS_FILES):
        monkeypatch.delenv(name, raising=False)


def needed(folder: Path, *flags: str) -> reach.Reach:
    file = folder / "sealcar.toml"
    file.write_text(LEAST)
    return reach.of(read(file, {}, flags))


def rights(found: reach.Reach, place: Path) -> Right:
    """Return what may be done in a place, and below it."""
    total = Right(0)
    for path, right in found.places:
        if path == place or path in place.parents:
            total |= right
    return total


def test_store_state_and_sockets_are_changed_policy_and_secrets_read(tmp_path: Path) -> None:
    found = needed(tmp_path, f"keys.default.secret=file:{tmp_path / 'secrets' / 'phrase'}")
    for name in ("state", "run", "admin", "store", "keys"):
        assert rights(found, tmp_path / name) == CHANGE
    for name in ("policy", "secrets"):
        assert rights(found, tmp_path / name) == READ
    assert rights(found, tmp_path) == Right(0)
    assert rights(found, tmp_path.parent / "elsewhere") == Right(0)
    assert (found.bind, found.connect, found.anywhere) == (set(), set(), [])


def test_a_store_that_is_only_read_is_only_read(tmp_path: Path) -> None:
    assert rights(needed(tmp_path, "store.read_only=true"), tmp_path / "store") == READ


def test_no_program_runs_from_where_anything_can_be_changed(tmp_path: Path) -> None:
    changed = [path for path, right in needed(tmp_path).places if Right.MAKE_REG in right]
    run = [path for path, right in needed(tmp_path).places if Right.EXECUTE in right]
    assert run
    for program in run:
        assert program.is_file()
        assert not any(folder in program.parents for folder in changed)


def test_links_in_a_circle_are_for_those_who_open_the_file(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "kek").symlink_to("kek")
    assert rights(needed(tmp_path), tmp_path / "keys") == CHANGE


def test_a_link_to_a_directory_may_be_replaced_by_another_one(tmp_path: Path) -> None:
    (tmp_path / "mount" / "..first").mkdir(parents=True)
    (tmp_path / "mount" / "..data").symlink_to("..first")
    found = needed(tmp_path, f"policy.file={tmp_path}/mount/..data/policy.toml")
    assert rights(found, tmp_path / "mount" / "..second") == READ


def test_what_lies_in_the_root_directory_opens_nothing_else(tmp_path: Path) -> None:
    found = needed(tmp_path, "policy.file=/policy.toml")
    assert (Path("/policy.toml"), READ) in found.places
    assert rights(found, tmp_path) == Right(0)


@pytest.mark.parametrize(
    ("uri", "ports"),
    [
        ("vault:https://vault.example:8200/transit/kek", {8200, 53}),
        ("vault:https://vault.example/transit/kek", {443, 53}),
        ("vault:http://127.0.0.1/transit/kek", {80, 53}),
        ("aws-kms:alias/kek?region=eu-central-1", {443, 80, 53}),
        ("aws-kms:alias/kek?region=eu-central-1&endpoint=https://a:4566", {443, 80, 53, 4566}),
        ("recipient:inbox.pem", set()),
    ],
)
def test_the_ports_of_key_services_are_those_of_their_uris(
    tmp_path: Path, uri: str, ports: set[int]
) -> None:
    found = needed(tmp_path, f"keys.default.uri={uri}")
    assert (found.connect, found.anywhere) == (ports, [])


def test_a_proxy_is_reached_by_those_who_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert needed(tmp_path).connect == set()
    monkeypatch.setenv("https_proxy", "second.example:3129")
    kms = needed(tmp_path, "keys.default.uri=aws-kms:alias/kek?region=eu-central-1")
    assert kms.connect == {443, 80, 53, 3128, 3129}


def test_names_of_hosts_are_found_after_the_network_changed(tmp_path: Path) -> None:
    folder = Path("/etc/resolv.conf").resolve().parent
    assert (folder, READ) not in needed(tmp_path).places
    vault = needed(tmp_path, "keys.default.uri=vault:https://a/transit/b")
    assert (folder, READ) in vault.places


@pytest.mark.parametrize(
    "uri",
    [
        "pkcs11:token=a;object=b?module-path=lib/a.so",
        "recipient:inbox.pem?token=a&object=b&module-path=lib/a.so",
    ],
)
def test_a_library_for_tokens_may_connect_and_is_read_where_it_lies(
    tmp_path: Path, uri: str
) -> None:
    found = needed(tmp_path, f"keys.hsm.uri={uri}")
    assert found.anywhere == ["hsm"]
    places = [path for path, right in found.places if right == READ]
    assert any(path.name == "lib" for path in places)


def test_ports_that_are_served_are_those_of_the_settings(tmp_path: Path) -> None:
    assert needed(tmp_path, "metrics.address=127.0.0.1:9464").bind == {9464}


def test_a_bucket_is_reached_and_what_is_here_of_it_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_bucket = ("store.bucket=s3://models/a", "store.read_only=true")
    credentials = f"store.credentials=file:{tmp_path / 'secrets' / 'aws'}"
    endpoint = "store.endpoint=https://s3.example:9000"
    found = needed(tmp_path, *of_bucket, credentials, endpoint)
    assert rights(found, tmp_path / "store") == CHANGE
    assert rights(found, tmp_path / "secrets") == READ
    assert rights(found, Path("/etc/ssl/certs")) == READ
    assert found.connect == {53, 9000}
    # without a file the machine says who it is
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token" / "web"))
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    found = needed(tmp_path, *of_bucket)
    assert found.connect == {53, 80, 443, 3128}
    assert rights(found, tmp_path / "token") == READ
