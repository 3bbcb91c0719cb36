"""What deploy/ gives to Kubernetes: rendered, held to the published schemas and to what it says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import kubernetes_validate
import pytest
import yaml
from support import manifests
from support.manifests import Case, Objects, containers_of, mib, of_kind, pod_of

from sealcar_server import settings_reading
from sealcar_server.access.policy import Policy, Right
from sealcar_server.access.principal import Principal

RELEASES: Final = ("1.29", "1.33")
# what the probes may take: an interpreter starts
PROBES: Final = {
    "startupProbe": ["sealcar", "status", "--probe", "--timeout", "4"],
    "readinessProbe": ["sealcar", "status", "--probe=ready", "--timeout", "4"],
    "livenessProbe": ["sealcar", "status", "--probe", "--timeout", "4"],
}


@pytest.fixture(scope="module", params=manifests.CASES, ids=lambda case: case.name)
def objects(request: pytest.FixtureRequest) -> Objects:
    case = request.param
    assert isinstance(case, Case)
    if reason := case.missing():
        pytest.skip(reason)
    return case.rendered()


def _file(objects: Objects, name: str, folder: Path) -> Path:
    (config,) = of_kind(objects, "ConfigMap")
    path = folder / name
    path.write_text(config["data"][name])
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("release", RELEASES)
def test_every_object_follows_the_published_schema(objects: Objects, release: str) -> None:
    for each in objects:
        # the operator's kinds are its own; the schemas are of Kubernetes itself
        if each["kind"] != "PodMonitor":
            kubernetes_validate.validate(each, release, strict=True)


def test_the_daemon_and_the_application_are_restricted(objects: Objects) -> None:
    pod = pod_of(objects)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"]["type"] in {"RuntimeDefault", "Localhost"}
    for name, container in containers_of(pod).items():
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"]["drop"] == ["ALL"]
        if name != "application":
            assert context["readOnlyRootFilesystem"] is True
        of_the_node = any("hostPath" in volume for volume in pod["volumes"])
        if not (of_the_node and name == "directory"):
            assert context["runAsUser"] > 0
            assert "add" not in context["capabilities"]
    assert not pod.get("hostPID")
    assert not pod.get("shareProcessNamespace")


def test_only_the_daemon_sees_key_store_settings_and_identity(objects: Objects) -> None:
    containers = containers_of(pod_of(objects))
    daemon = containers["sealcar"]["securityContext"]["runAsUser"]
    if "application" in containers:
        seen = {mount["name"] for mount in containers["application"]["volumeMounts"]}
        assert seen == {"sockets"}
        assert containers["application"]["securityContext"]["runAsUser"] != daemon
        given = {each["name"]: each["value"] for each in containers["application"]["env"]}
        assert given["SEALCAR_PEER_UID"] == str(daemon)
    assert pod_of(objects)["automountServiceAccountToken"] is False


def test_the_settings_are_settings_and_the_policy_is_one(objects: Objects, tmp_path: Path) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    assert settings.daemon.isolation == "uid"
    assert Policy.load(_file(objects, "policy.toml", tmp_path)) != Policy(())
    pod = pod_of(objects)
    mounts = {each["mountPath"] for each in containers_of(pod)["sealcar"]["volumeMounts"]}
    for path in (settings.store.path, settings.daemon.state_dir, settings.policy.file):
        assert any(str(path).startswith(mount) for mount in mounts), path
    groups = {int(listen.group or 0) for listen in settings.listen.values()}
    assert groups <= set(pod["securityContext"]["supplementalGroups"])


def test_the_application_may_read(objects: Objects, tmp_path: Path) -> None:
    policy = Policy.load(_file(objects, "policy.toml", tmp_path))
    application = containers_of(pod_of(objects)).get("application")
    if application is None:
        who = Principal("tenant-a", 5000, 2001)
    else:
        user = application["securityContext"]
        who = Principal("default", user["runAsUser"], user["runAsGroup"])
    assert policy.allows(who, Right.READ, "tenant-a-ocr")


def test_probes_ask_the_daemon_s_own_socket_and_have_time_for_it(
    objects: Objects, tmp_path: Path
) -> None:
    daemon = containers_of(pod_of(objects))["sealcar"]
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    asked = {each["name"]: each["value"] for each in daemon["env"]}
    assert Path(asked["SEALCAR_SOCKET"]) in {listen.dir for listen in settings.listen.values()}
    assert asked["SEALCAR_PEER_UID"] == str(daemon["securityContext"]["runAsUser"])
    for probe, command in PROBES.items():
        assert daemon[probe]["exec"]["command"] == command
        assert daemon[probe]["timeoutSeconds"] == 5


def test_the_memory_limit_holds_the_budget_and_the_daemon(objects: Objects, tmp_path: Path) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    limit = mib(containers_of(pod_of(objects))["sealcar"]["resources"]["limits"]["memory"])
    assert limit >= (settings.transfer.memory_limit >> 20) + 256


def test_the_pod_waits_longer_than_the_daemon_drains(objects: Objects, tmp_path: Path) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    assert settings.daemon.drain_timeout < pod_of(objects)["terminationGracePeriodSeconds"]


def test_the_application_starts_after_the_daemon_and_ends_before_it(objects: Objects) -> None:
    containers = containers_of(pod_of(objects))
    daemon = containers["sealcar"]
    if "application" in containers:
        assert daemon["restartPolicy"] == "Always"
    # it waits for the daemon's sockets
    assert (
        daemon["startupProbe"]["failureThreshold"] * daemon["startupProbe"]["periodSeconds"] >= 60
    )


def test_who_reads_metrics_finds_them(objects: Objects) -> None:
    (workload,) = of_kind(objects, "Deployment", "DaemonSet")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in containers_of(pod_of(objects))["sealcar"]["ports"]}
    for monitor in of_kind(objects, "PodMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= ports
    for network in of_kind(objects, "NetworkPolicy"):
        assert network["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.skipif(not manifests.helm(), reason="needs helm")
def test_a_chart_with_one_uid_for_both_is_refused() -> None:
    with pytest.raises(AssertionError, match="must differ"):
        Case("helm", "one", ("uids.application=10001",)).rendered()


@pytest.mark.skipif(not manifests.helm(), reason="needs helm")
@pytest.mark.parametrize(
    "value",
    [
        "uids.daemon=0",
        "mode=both",
        "image.digest=latest",
        "transferMib=64",
        "daemonMiB=128",
        # a store is one daemon's
        "application.replicas=2",
    ],
)
def test_a_value_that_is_none_is_refused_before_anything_is_sent(value: str) -> None:
    with pytest.raises(AssertionError, match=r"don't meet the specifications"):
        Case("helm", "wrong", (value,)).rendered()


@pytest.mark.skipif(not manifests.helm(), reason="needs helm")
@pytest.mark.parametrize("case", manifests.CHARTS, ids=lambda case: case.name)
def test_the_chart_passes_helm_s_own_linter(case: Case) -> None:
    command = [manifests.helm(), "lint", "--strict", str(manifests.CHART), *case.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_chart_is_of_this_release() -> None:
    chart = yaml.safe_load(manifests.CHART.joinpath("Chart.yaml").read_text())
    project = manifests.DEPLOY.parent.joinpath("pyproject.toml").read_text()
    assert re.findall(r'^version = "(.*)"$', project, re.MULTILINE) == [chart["appVersion"]]


def test_the_store_is_founded_under_the_key_of_the_settings(
    objects: Objects, tmp_path: Path
) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    uri = settings.keys["default"].uri.absolute
    containers = containers_of(pod_of(objects))
    (founding,) = [each for each in containers.values() if "sealcar init" in str(each)]
    asked = founding["command"]
    if uri == "file:/var/lib/sealcar/kek":
        assert "--key-uri" not in asked
        return
    assert asked[asked.index("--key-uri") + 1] == uri
    given = containers["sealcar"]["env"]
    assert [each for each in given if not each["name"].startswith("SEALCAR_")] == founding["env"]
    for each in (founding, containers["sealcar"]):
        assert "identity" in {mount["name"] for mount in each["volumeMounts"]}
