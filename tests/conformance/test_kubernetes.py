"""What deploy/ gives to Kubernetes: rendered, held to the published schemas and to what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import kubernetes_validate
import pytest
import yaml

from sealcar_server import settings_reading
from sealcar_server.access.policy import Policy, Right
from sealcar_server.access.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
OVERLAYS: Final = ("base", "overlays/monitored", "overlays/kms", "overlays/node")
CHARTS: Final = {
    "sidecar": (),
    "monitored": (
        "podMonitor.enabled=true",
        "transferMiB=1024",
        "image.digest=sha256:0",
        "uids.application=1234",
    ),
    "kms": ("key.workloadIdentity=true", "key.uri=aws-kms:arn:aws:kms:eu-west-1:1:key/k"),
    "node": ("mode=node", "seccompProfile=sealcar/seccomp.json"),
}
RELEASES: Final = ("1.29", "1.33")
MIB: Final = {"Mi": 1, "Gi": 1024}
Objects: TypeAlias = list[dict[str, Any]]


def _kustomized(folder: str) -> Objects:
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes" / folder)]
    return _objects(command)


def _charted(name: str) -> Objects:
    values = [part for value in CHARTS[name] for part in ("--set", value)]
    chart = str(DEPLOY / "helm" / "sealcar")
    return _objects(["helm", "template", "ocr", chart, "--kube-version", RELEASES[-1], *values])


def _objects(command: list[str]) -> Objects:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(
    scope="module",
    params=[("kubectl", name) for name in OVERLAYS] + [("helm", name) for name in CHARTS],
    ids=lambda param: "-".join(param).replace("/", "-"),
)
def objects(request: pytest.FixtureRequest) -> Objects:
    tool, name = request.param
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    return _kustomized(name) if tool == "kubectl" else _charted(name)


def _of_kind(objects: Objects, *kinds: str) -> Iterator[dict[str, Any]]:
    return (each for each in objects if each["kind"] in kinds)


def _pod(objects: Objects) -> dict[str, Any]:
    (workload,) = _of_kind(objects, "Deployment", "DaemonSet")
    pod = workload["spec"]["template"]["spec"]
    assert isinstance(pod, dict)
    return pod


def _containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in pod["initContainers"] + pod["containers"]}


def _file(objects: Objects, name: str, folder: Path) -> Path:
    (config,) = _of_kind(objects, "ConfigMap")
    path = folder / name
    path.write_text(config["data"][name])
    path.chmod(0o600)
    return path


def _mib(quantity: str) -> int:
    return int(quantity[:-2]) * MIB[quantity[-2:]]


@pytest.mark.parametrize("release", RELEASES)
def test_every_object_follows_the_published_schema(objects: Objects, release: str) -> None:
    for each in objects:
        # the operator's kinds are its own; the schemas are of Kubernetes itself
        if each["kind"] != "PodMonitor":
            kubernetes_validate.validate(each, release, strict=True)


def test_the_daemon_and_the_application_are_restricted(objects: Objects) -> None:
    pod = _pod(objects)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"]["type"] in {"RuntimeDefault", "Localhost"}
    for name, container in _containers(pod).items():
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
    containers = _containers(_pod(objects))
    daemon = containers["sealcar"]["securityContext"]["runAsUser"]
    if "application" in containers:
        seen = {mount["name"] for mount in containers["application"]["volumeMounts"]}
        assert seen == {"sockets"}
        assert containers["application"]["securityContext"]["runAsUser"] != daemon
        given = {each["name"]: each["value"] for each in containers["application"]["env"]}
        assert given["SEALCAR_PEER_UID"] == str(daemon)
    assert _pod(objects)["automountServiceAccountToken"] is False


def test_the_settings_are_settings_and_the_policy_is_one(objects: Objects, tmp_path: Path) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    assert settings.daemon.isolation == "uid"
    assert Policy.load(_file(objects, "policy.toml", tmp_path)) != Policy(())
    pod = _pod(objects)
    mounts = {each["mountPath"] for each in _containers(pod)["sealcar"]["volumeMounts"]}
    for path in (settings.store.path, settings.daemon.state_dir, settings.policy.file):
        assert any(str(path).startswith(mount) for mount in mounts), path
    groups = {int(listen.group or 0) for listen in settings.listen.values()}
    assert groups <= set(pod["securityContext"]["supplementalGroups"])


def test_the_application_may_read(objects: Objects, tmp_path: Path) -> None:
    policy = Policy.load(_file(objects, "policy.toml", tmp_path))
    application = _containers(_pod(objects)).get("application")
    if application is None:
        who = Principal("tenant-a", 5000, 2001)
    else:
        user = application["securityContext"]
        who = Principal("default", user["runAsUser"], user["runAsGroup"])
    assert policy.allows(who, Right.READ, "tenant-a-ocr")


def test_a_probe_may_take_longer_than_a_second(objects: Objects) -> None:
    daemon = _containers(_pod(objects))["sealcar"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert daemon[probe]["timeoutSeconds"] == 5


def test_the_memory_limit_holds_the_budget_and_the_daemon(objects: Objects, tmp_path: Path) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    limit = _mib(_containers(_pod(objects))["sealcar"]["resources"]["limits"]["memory"])
    assert limit >= (settings.transfer.memory_limit >> 20) + 256


def test_the_pod_waits_longer_than_the_daemon_drains(objects: Objects, tmp_path: Path) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    assert settings.daemon.drain_timeout < _pod(objects)["terminationGracePeriodSeconds"]


def test_the_application_starts_after_the_daemon_and_ends_before_it(objects: Objects) -> None:
    containers = _containers(_pod(objects))
    daemon = containers["sealcar"]
    if "application" in containers:
        assert daemon["restartPolicy"] == "Always"
    assert daemon["startupProbe"]["httpGet"]["path"] == "/livez"
    assert daemon["readinessProbe"]["httpGet"]["path"] == "/readyz"
    ports = {port["name"] for port in daemon["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert daemon[probe]["httpGet"]["port"] in ports


def test_who_reads_metrics_finds_them(objects: Objects) -> None:
    (workload,) = _of_kind(objects, "Deployment", "DaemonSet")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in _containers(_pod(objects))["sealcar"]["ports"]}
    for monitor in _of_kind(objects, "PodMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= ports
    for network in _of_kind(objects, "NetworkPolicy"):
        assert network["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.skipif(not shutil.which("helm"), reason="needs helm")
def test_a_chart_with_one_uid_for_both_is_refused() -> None:
    chart = str(DEPLOY / "helm" / "sealcar")
    command = ["helm", "template", "ocr", chart, "--kube-version", RELEASES[-1]]
    done = subprocess.run(
        [*command, "--set", "uids.application=10001"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "must differ" in done.stderr


def test_the_chart_is_of_this_release() -> None:
    chart = yaml.safe_load(DEPLOY.joinpath("helm", "sealcar", "Chart.yaml").read_text())
    project = DEPLOY.parent.joinpath("pyproject.toml").read_text()
    assert re.findall(r'^version = "(.*)"$', project, re.MULTILINE) == [chart["appVersion"]]


def test_the_store_is_founded_under_the_key_of_the_settings(
    objects: Objects, tmp_path: Path
) -> None:
    settings = settings_reading.read(_file(objects, "sealcar.toml", tmp_path), {}, ())
    uri = settings.keys["default"].uri.absolute
    containers = _containers(_pod(objects))
    (founding,) = [each for each in containers.values() if "sealcar init" in str(each)]
    asked = founding["command"]
    if uri == "file:/var/lib/sealcar/kek":
        assert "--key-uri" not in asked
        return
    assert asked[asked.index("--key-uri") + 1] == uri
    assert founding.get("env") == containers["sealcar"].get("env")
    for each in (founding, containers["sealcar"]):
        assert "identity" in {mount["name"] for mount in each["volumeMounts"]}
