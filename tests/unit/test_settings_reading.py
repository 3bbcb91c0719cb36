from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from sealcar.errors import ConfigurationError
from sealcar_server import settings
from sealcar_server.settings_kinds import Address
from sealcar_server.settings_reading import read

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST = """
[daemon]
state_dir = "state"
[listen.default]
dir = "run/default"
[admin]
dir = "run/admin"
[store]
path = "/srv/store"
[keys.default]
uri = "file:kek"
[policy]
file = "policy.toml"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sealcar.toml"
    path.write_text(LEAST)
    return path


def settings_of(
    file: Path, *flags: str, add: str = "", environment: Mapping[str, str] | None = None
) -> settings.Settings:
    file.write_text(file.read_text() + add)
    return read(file, environment or {}, flags)


def test_what_is_not_said_has_its_default(file: Path) -> None:
    found = settings_of(file)
    assert found.daemon.isolation == "uid"
    assert found.daemon.workers == 0
    assert found.listen["default"].mode == 0o660
    assert found.metrics.address is None
    assert found.transfer.memory_limit == 256 << 20
    assert found.log.level == "info"


def test_relative_paths_are_of_the_files_directory(file: Path) -> None:
    found = settings_of(file)
    assert found.daemon.state_dir == file.parent / "state"
    assert found.keys["default"].uri.files == (file.parent / "kek",)
    assert str(found.store.path) == "/srv/store"


def test_relative_paths_of_flags_are_of_the_current_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert settings_of(file, "store.path=s").store.path == tmp_path / "here" / "s"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    add = '[log]\nlevel = "error"\nformat = "json"\n[transfer]\nwait = "1s"\n'
    environment = {"SEALCARD_LOG_LEVEL": "warning", "SEALCARD_LOG_FORMAT": "console"}
    found = settings_of(file, "log.level=debug", add=add, environment=environment)
    assert (found.log.level, found.log.format, found.transfer.wait) == ("debug", "console", 1.0)


def test_every_setting_can_be_reached_by_environment_and_flag(file: Path) -> None:
    for section in settings.SECTIONS:
        for key in settings.keys_of(section):
            for give in ("environment", "flag"):
                with pytest.raises(ConfigurationError, match="must be"):
                    reach(file, give, section, key)
    for section in settings.NAMED:
        for key in settings.keys_of(section):
            for give in ("environment", "flag"):
                with pytest.raises(ConfigurationError, match="must be"):
                    reach(file, give, f"{section}.default", key)


def reach(file: Path, how: str, section: str, key: str) -> None:
    """Give a setting a value that no kind takes."""
    if how == "flag":
        settings_of(file, f"{section}.{key}=\0")
    variable = f"SEALCARD_{section}_{key}".upper().replace(".", "_")
    settings_of(file, environment={variable: "\0"})


def test_every_section_is_one_of_the_known_classes() -> None:
    known = {*settings.SECTIONS.values(), *settings.NAMED.values()}
    assert known == set(get_args(settings.Section))


def test_a_named_section_can_be_added_by_flags_alone(file: Path) -> None:
    found = settings_of(file, "listen.gpu.dir=/run/gpu", "listen.gpu.mode=0666")
    assert found.listen["gpu"].mode == 0o666
    assert set(found.listen) == {"default", "gpu"}


def test_an_environment_variable_finds_a_name_with_a_dash(file: Path) -> None:
    add = '[keys.my-key]\nuri = "file:a"\n'
    found = settings_of(file, add=add, environment={"SEALCARD_KEYS_MY_KEY_URI": "file:/b"})
    assert str(found.keys["my-key"].uri) == "file:/b"


def test_other_variables_are_left_alone(file: Path) -> None:
    settings_of(file, environment={"SEALCARD_CONFIG": "x", "SEALCAR_SOCKET": "y", "PATH": "z"})


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("transfer.memory_limit=67108864", 64 << 20),
        ("transfer.memory_limit=64MiB", 64 << 20),
        ("transfer.memory_limit=2 GiB", 2 << 30),
        ("transfer.wait=0", 0.0),
        ("transfer.wait=250ms", 0.25),
        ("transfer.wait=5 min", 300.0),
        ("transfer.wait=1.5", 1.5),
        ("daemon.workers=4", 4),
        ("listen.default.mode=0600", 0o600),
        ("listen.default.group=0", 0),
        ("listen.default.group=root", 0),
        ("hardening.readable=/a:/b", (Path("/a"), Path("/b"))),
        ("hardening.writable=", ()),
        ("metrics.address=off", None),
        ("metrics.address=127.0.0.1:0", Address("127.0.0.1", 0)),
        ("metrics.address=[::1]:9464", Address("::1", 9464)),
        ("traces.endpoint=off", None),
        ("traces.endpoint=http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
        ("traces.endpoint=https://collector.example", "https://collector.example"),
    ],
)
def test_values_are_read_by_their_kind(file: Path, flag: str, expected: object) -> None:
    found: object = settings_of(file, flag)
    for name in flag.partition("=")[0].split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == expected


def test_a_key_can_be_a_credential_of_systemd(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/sealcar")
    found = settings_of(file, "keys.default.uri=credential:kek")
    assert found.keys["default"].uri.address == "/run/credentials/sealcar/kek"


@pytest.mark.parametrize(
    ("add", "message"),
    [
        ("[log]\nlevel = 3\n", "[log] level must be one of: debug, info, warning, error: 3 is not"),
        ("[log]\nlevle = 3\n", "[log] key 'levle' is unknown; did you mean 'level'? allowed:"),
        (
            "[lgo]\n",
            "section 'lgo' is unknown; did you mean 'log'? allowed: admin, audit, daemon",
        ),
        ("[log\n", "not a TOML file"),
        ("[transfer]\nwait = true\n", "[transfer] wait must be seconds from 0 to 3600"),
        ("[transfer]\nwait = 4000\n", 'or text such as "5min": 4000 is out of range'),
        ("[transfer]\nmemory_limit = 5\n", 'must be bytes, or text such as "256MiB"'),
        ("[listen.b]\ndir = 3\n", "[listen.b] dir must be a path: 3 is not a path"),
        ("[listen.b]\n", "[listen.b] dir is missing (directory of the sockets); it must be a path"),
        ('[listen.b]\ndir = "x"\nmode = 660\n', 'must be a mode in quotes, such as "0660"'),
        ("[listen.B]\n", "[listen.B]: the name 'B' must match"),
        ("[keys]\ndefault = 1\n", "not a TOML file"),
        (
            '[keys.b]\nuri = "valt:x"\n',
            'must be "file:PATH", or a URI whose scheme is one of: aws-kms, ',
        ),
        ('[keys.b]\nuri = "valt:x"\n', "'valt' is no kind of key; did you mean 'vault'?"),
        ('[keys.b]\nuri = "pkcs11:a?b=c&b=c"\n', "parameter 'b' must be NAME=VALUE, once"),
        ('[keys.b]\nuri = "file:x"\nsecret = "abc"\n', '[keys.b] secret must be "file:PATH", or'),
        ('[keys.b]\nuri = "credential:x"\n', "is this a systemd service?"),
        ('[metrics]\naddress = "here"\n', 'must be "HOST:PORT" (port 0: any that is free), or'),
        ('[metrics]\naddress = "a:70000"\n', "'a:70000' is not an address"),
        ('[traces]\nendpoint = "a:4318"\n', 'must be "http://HOST:PORT/PATH", or https, or'),
        ('[traces]\nendpoint = "http://u:p@a/"\n', "is no such address"),
        ('[traces]\nendpoint = "ftp://a/"\n', "is no such address"),
        ('[traces]\nendpoint = "http://a:99999/"\n', "is no such address"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place_and_what_is_allowed(
    file: Path, monkeypatch: pytest.MonkeyPatch, add: str, message: str
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ConfigurationError) as error:
        settings_of(file, add=add)
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("log.level=loud", "--set log.level must be one of: debug, info, warning, error: 'loud'"),
        ("log=1", "--set log: write --set log.KEY=VALUE"),
        ("log.level", "--set log.level: write --set log.KEY=VALUE"),
        ("listen.dir=1", "--set listen.dir: write --set listen.NAME.KEY=VALUE"),
        ("daemom.workers=1", "section 'daemom' is unknown; did you mean 'daemon'?"),
        ("daemon.worker=1", "--set daemon.worker: key 'worker' is unknown; did you mean 'workers'"),
        ("daemon.workers=257", "must be a whole number from 0 to 256: 257 is out of range"),
        ("daemon.workers=x", "'x' is not a whole number"),
        ("listen.default.group=no-such", "there is no group 'no-such' here"),
    ],
)
def test_a_wrong_flag_is_named(file: Path, flag: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        settings_of(file, flag)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("SEALCARD_LOG_LEVEL", "environment: SEALCARD_LOG_LEVEL must be one of: debug"),
        ("SEALCARD_LOG_LEVLE", "SEALCARD_LOG_LEVLE is no setting; it must be SEALCARD_SECTION_KEY"),
        ("SEALCARD_NOTHING", "SEALCARD_NOTHING is no setting"),
        ("SEALCARD_LISTEN_DIR", "SEALCARD_LISTEN_DIR is no setting"),
    ],
)
def test_a_wrong_variable_is_named(file: Path, variable: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        settings_of(file, environment={variable: "?"})
    assert message in str(error.value)


@pytest.mark.parametrize("section", ["listen", "keys"])
def test_at_least_one_listener_and_key_are_needed(file: Path, section: str) -> None:
    kept = [part for part in file.read_text().split("[") if not part.startswith(section)]
    file.write_text("[".join(kept))
    with pytest.raises(ConfigurationError, match=rf"no \[{section}\.NAME\]; add one with"):
        settings_of(file)


def test_a_file_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"No such file.*`sealcar init` writes a first"):
        read(tmp_path / "none.toml", {}, ())
