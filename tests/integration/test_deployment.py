"""What deploy/ holds the daemon to is no less than what it holds itself to, and lets it do that."""

from __future__ import annotations

import grp
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support import seccomp_profile
from support.daemon import answer
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.seccomp_profile import ProfiledDaemon

from sealcar_server import settings_reading
from sealcar_server.hardening import seccomp
from sealcar_server.hardening.calls import DENIED

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
UNIT: Final = DEPLOY.joinpath("systemd", "sealcar.service").read_text()
PROFILE: Final = json.loads(DEPLOY.joinpath("kubernetes", "seccomp.json").read_text())
# the steps themselves
OWN: Final = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"}


needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="needs systemd-analyze"
)


def directives(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def members(name: str) -> set[str]:
    """Return the calls of a group of systemd's, or the call itself."""
    if not name.startswith("@"):
        return {name}
    command = ["systemd-analyze", "syscall-filter", name]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.strip() for line in told.splitlines()[1:]]
    named = [line for line in lines if line and not line.startswith("#")]
    return {call for each in named for call in members(each)}


def of_the_service() -> set[str]:
    """Return the calls that systemd leaves the service."""
    allowed: set[str] = set()
    for line in directives("SystemCallFilter"):
        calls = {call for name in line.removeprefix("~").split() for call in members(name)}
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed


@needs_systemd
def test_the_service_may_call_nothing_that_the_daemon_takes_from_itself() -> None:
    allowed = of_the_service()
    # it gives its capabilities up itself, before it takes the call from itself
    assert allowed & DENIED.keys() == {"capset"}
    assert allowed >= OWN
    assert directives("SystemCallArchitectures") == ["native"]


@needs_systemd
def test_a_service_manager_understands_every_line(tmp_path: Path) -> None:
    unit = tmp_path / "sealcar.service"
    # the daemon is not where an operator puts it
    unit.write_text(UNIT.replace("/opt/sealcar/bin/sealcar", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if str(unit) in line]
    # older ones pass over the second type
    assert not [line for line in said if "notify-reload" not in line], done.stderr


def test_the_settings_that_the_unit_shows_are_settings_and_fit_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    shown = re.findall(r"^#   (\[.*|\w+ = .*)$", UNIT, re.MULTILINE)
    file = tmp_path / "sealcar.toml"
    # a group that there is here
    own = grp.getgrgid(os.getgid()).gr_name
    file.write_text("\n".join(shown).replace("sealcar-clients", own))
    file.chmod(0o600)
    settings = settings_reading.read(file, {}, ())
    assert settings.daemon.isolation == "uid"
    # who may connect at all
    (listen,) = settings.listen.values()
    assert (listen.mode, listen.group) == (0o660, os.getgid())
    assert 'group = "sealcar-clients"' in shown
    runtime = Path("/run") / directives("RuntimeDirectory")[0]
    state = Path("/var/lib") / directives("StateDirectory")[0]
    assert runtime in listen.dir.parents
    assert runtime in settings.admin.dir.parents
    assert state in settings.store.path.parents
    assert state in settings.daemon.state_dir.parents
    # the key comes encrypted, under the name that the settings call it by
    (credential,) = directives("LoadCredentialEncrypted")
    name = credential.split(":")[0]
    assert f'uri = "credential:{name}"' in shown
    assert settings.keys["default"].uri.absolute == f"file:{tmp_path / name}"
    # it drains, and has time left to end
    assert int(directives("TimeoutStopSec")[0]) > settings.daemon.drain_timeout
    assert directives("LimitMEMLOCK") == ["64M"]


def test_the_service_has_no_power_no_core_and_no_way_to_get_one() -> None:
    held = {
        "CapabilityBoundingSet": "",
        "NoNewPrivileges": "yes",
        "RestrictNamespaces": "yes",
        "LimitCORE": "0",
        "UMask": "0077",
        "ProtectSystem": "strict",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    }
    assert {name: directives(name) for name in held} == {
        name: [value] for name, value in held.items()
    }


def of_the_profile() -> set[str]:
    """Return the calls that the profile for Kubernetes allows, some for certain arguments only."""
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"
    rules = [rule for rule in PROFILE["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
    return {name for rule in rules for name in rule["names"]}


def test_a_container_under_the_profile_may_call_nothing_that_the_daemon_takes_from_itself() -> None:
    allowed = of_the_profile()
    assert not allowed & DENIED.keys()
    assert allowed >= OWN
    (without,) = [rule for rule in PROFILE["syscalls"] if rule["names"] == ["clone"]]
    assert [each["value"] for each in without["args"]] == [seccomp.NEW_NAMESPACES]
    families = [
        rule["args"][0]["value"] for rule in PROFILE["syscalls"] if "socket" in rule["names"]
    ]
    assert families == sorted(seccomp.FAMILIES)


@needs_systemd
def test_a_container_under_the_profile_may_call_what_the_service_may() -> None:
    # a container has its capabilities taken from outside, and clone3 hides what it is asked for
    assert of_the_profile() == of_the_service() - {"capset", "clone3"}


@pytest.mark.skipif(bool(seccomp_profile.missing()), reason=seccomp_profile.missing())
def test_a_daemon_serves_under_the_profile(tmp_path: Path) -> None:
    data = varied(3 << 20)
    with ProfiledDaemon(tmp_path, DEPLOY / "kubernetes" / "seccomp.json") as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": data})
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("weights") == data
        assert answer("keys", "rotate", "--admin", str(daemon.admin))["version"] == "2"
        steps = {line["step"]: line["state"] for line in daemon.log if line["event"] == "hardening"}
        assert {steps[name] for name in ("landlock", "seccomp")} == {"on"}


def test_the_service_tells_its_manager_how_it_is() -> None:
    # the second is what systemd knows from 253 on; an older one ignores it
    assert directives("Type") == ["notify", "notify-reload"]
    assert directives("NotifyAccess") == ["main"]
    assert int(directives("WatchdogSec")[0]) > 2
    # the daemon has to see uids as they are
    assert directives("PrivateUsers") == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_service_is_as_closed_as_systemd_can_make_one_that_serves_networks() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20"]
    judged = subprocess.run(
        [*command, str(DEPLOY / "systemd" / "sealcar.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    # of 100, where 0 is a service that can do nothing
    assert judged.returncode == 0, judged.stdout
    assert "OK" in judged.stdout.splitlines()[-1]
