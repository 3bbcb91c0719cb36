"""The Dockerfile and the Compose file: what linters, schemas and a careful reader say of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from support import dockerfile

if TYPE_CHECKING:
    from support.dockerfile import Stage

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "Dockerfile"
COMPOSE: Final = ROOT / "deploy" / "compose.yaml"
PROGRAMS: Final = Path(sys.executable).parent
RUN: Final = {"daemon": (10001, 10001), "client": (1000, 1000)}
SERVICES: Final[dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]


def stages() -> dict[str, Stage]:
    return {stage.name: stage for stage in dockerfile.read(FILE)[1]}


def said(stage: Stage, word: str) -> list[str]:
    return [each.rest for each in stage.instructions if each.word == word]


def test_the_dockerfile_passes_its_linter_without_a_remark() -> None:
    command = [str(PROGRAMS / "hadolint"), "--failure-threshold", "style", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_linter_finds_what_is_wrong(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nRUN pip install sealcar\n")
    command = [str(PROGRAMS / "hadolint"), "--failure-threshold", "style", str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert {"DL3006", "DL3013", "DL3042"} <= set(re.findall(r"DL\d+", done.stdout))


def test_every_stage_stands_on_one_base_of_a_named_version_and_on_a_digest_if_it_is_given() -> None:
    defaults, found = dockerfile.read(FILE)
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", defaults["BASE"])
    line = next(line for line in FILE.read_text().splitlines() if line.startswith("FROM $"))
    base = line.split()[1]
    digest = "sha256:" + "0" * 64
    assert dockerfile.expand(base, defaults) == defaults["BASE"]
    pinned = defaults | {"BASE_DIGEST": digest}
    assert dockerfile.expand(base, pinned) == f"{defaults['BASE']}@{digest}"
    outside = {stage.base for stage in found} - {stage.name for stage in found}
    assert outside == {defaults["BASE"], "scratch"}


def test_what_is_installed_is_locked_by_hash() -> None:
    for stage in stages().values():
        for line in said(stage, "RUN"):
            for found in re.findall(r"pip[^&]* install ([^&]*)", line):
                assert "--require-hashes" in found or "--no-index" in found
            assert "curl" not in line
            assert "wget" not in line


@pytest.mark.parametrize("name", RUN)
def test_what_runs_is_a_numeric_user_with_a_check_of_its_health(name: str) -> None:
    stage = stages()[name]
    uid, gid = RUN[name]
    assert said(stage, "USER") == [f"{uid}:{gid}"]
    assert len(said(stage, "HEALTHCHECK")) == 1
    assert "apt-get" not in " ".join(said(stage, "RUN"))
    labels = dockerfile.pairs(" ".join(said(stage, "LABEL")))
    wanted = ("title", "description", "licenses", "version", "revision")
    assert labels.keys() >= {f"org.opencontainers.image.{each}" for each in wanted}


def test_the_daemon_is_what_is_built_if_nothing_else_is_asked_for() -> None:
    assert dockerfile.read(FILE)[1][-1].name == "daemon"
    assert said(stages()["daemon"], "STOPSIGNAL") == ["SIGTERM"]


def test_the_compose_file_follows_its_published_schema(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("cap_drop", "capdrop"))
    command = [str(PROGRAMS / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    command += ["-o", "json", str(COMPOSE), str(wrong)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert {Path(each["filename"]) for each in json.loads(done.stdout)["errors"]} == {wrong}
    assert "capdrop" in done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_no_composed_service_has_power_or_a_way_to_get_it(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    # only its own machine reaches it
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert name == "application" or service["network_mode"] == "none"


def test_the_composed_application_sees_sockets_only_and_cannot_replace_them() -> None:
    for name in ("application", "publisher"):
        assert SERVICES[name]["volumes"] == ["sockets:/run/sealcar:ro"]
        assert SERVICES[name]["build"]["target"] == "client"
    daemon = SERVICES["sealcar"]
    assert "--set=daemon.isolation=uid" in daemon["command"]
    budget = next(part for part in daemon["command"] if "memory_limit" in part)
    assert budget.endswith("=256MiB")
    assert daemon["mem_limit"] == "1g"
    assert daemon["ulimits"]["core"] == 0
