"""What deploy/ gives to Kubernetes, rendered by the tools that would send it there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "sealcar"
# where the Makefile builds what no Python package carries
TOOLS: Final = DEPLOY.parent / ".tools"
_RELEASE: Final = "1.33"
_MIB: Final = {"Mi": 1, "Gi": 1024}
Objects: TypeAlias = list[dict[str, Any]]


def helm() -> str:
    """Return where Helm is, or nothing."""
    built = TOOLS / "helm"
    return str(built) if built.exists() else shutil.which("helm") or ""


class Case(NamedTuple):
    """One way to render: a folder of kustomize, or the chart with some values."""

    tool: str
    name: str
    set: tuple[str, ...] = ()

    def missing(self) -> str:
        """Return why it can't be rendered here, or nothing."""
        found = helm() if self.tool == "helm" else shutil.which(self.tool)
        return "" if found else f"needs {self.tool}"

    def values(self) -> list[str]:
        """Return the options that set the chart's values."""
        return [part for value in self.set for part in ("--set", value)]

    def rendered(self) -> Objects:
        """Return the objects."""
        if self.tool == "helm":
            command = [helm(), "template", "ocr", str(CHART), "--kube-version", _RELEASE]
            command += self.values()
        else:
            command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes" / self.name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]


CHARTS: Final = (
    Case("helm", "sidecar"),
    Case(
        "helm",
        "monitored",
        (
            "podMonitor.enabled=true",
            "transferMiB=1024",
            f"image.digest=sha256:{'0' * 64}",
            "uids.application=1234",
        ),
    ),
    Case(
        "helm",
        "kms",
        (
            "key.workloadIdentity=true",
            "key.uri=aws-kms:arn:aws:kms:eu-west-1:1:key/k",
            "key.environment.AWS_ROLE_ARN=arn:aws:iam::1:role/sealcar",
        ),
    ),
    # two uids of a range that a namespace of OpenShift has
    Case("helm", "openshift", ("uids.daemon=1000700001", "uids.application=1000700002")),
    Case("helm", "node", ("mode=node", "seccompProfile=sealcar/seccomp.json")),
)
CASES: Final = (
    Case("kubectl", "base"),
    Case("kubectl", "overlays/monitored"),
    Case("kubectl", "overlays/kms"),
    Case("kubectl", "overlays/node"),
    *CHARTS,
)


def of_kind(objects: Objects, *kinds: str) -> Iterator[dict[str, Any]]:
    """Return the objects of some kinds."""
    return (each for each in objects if each["kind"] in kinds)


def pod_of(objects: Objects) -> dict[str, Any]:
    """Return the description of the only pod."""
    (workload,) = of_kind(objects, "Deployment", "DaemonSet")
    pod = workload["spec"]["template"]["spec"]
    assert isinstance(pod, dict)
    return pod


def containers_of(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the containers of a pod, those that come first included."""
    return {each["name"]: each for each in pod["initContainers"] + pod["containers"]}


def mib(quantity: str) -> int:
    """Return a quantity of memory in MiB."""
    return int(quantity[:-2]) * _MIB[quantity[-2:]]
