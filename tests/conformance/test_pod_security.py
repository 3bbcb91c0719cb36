"""What Kubernetes' admission and the Prometheus operator would say to what deploy/ gives them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support import manifests
from support.manifests import Case, of_kind, pod_of
from support.pod_security import violations

MONITORS: Final = manifests.TOOLS / "podmonitors.yaml"
# the daemon of a node has directories of the node, made and given to it by root
OF_A_NODE: Final = {
    "volume of kind hostPath",
    "directory: runs as root",
    "directory: may run as root",
    "directory: adds capabilities",
}

all_cases = pytest.mark.parametrize("case", manifests.CASES, ids=lambda case: case.name)
needs_schema = pytest.mark.skipif(not MONITORS.exists(), reason="needs the operator's schemas")


def rendered(case: Case) -> manifests.Objects:
    if reason := case.missing():
        pytest.skip(reason)
    return case.rendered()


@all_cases
def test_a_restricted_namespace_takes_every_pod_but_a_node_s(case: Case) -> None:
    found = set(violations(pod_of(rendered(case))))
    assert found == (OF_A_NODE if case.name.endswith("node") else set())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hostPID": True}, "hostPID"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "volume of kind hostPath"),
        ({"securityContext": {"runAsNonRoot": True}}, "c: no seccomp profile"),
        ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, "c: may run as root"),
    ],
)
def test_what_is_not_restricted_is_found(change: dict[str, Any], told: str) -> None:
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{"name": "c", "securityContext": closed}],
    }
    assert violations(pod) == []
    assert violations(pod | change) == [told]


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that takes no key that it doesn't name, as the API server warns of them."""
    made = {
        key: closed(value) if isinstance(value, dict) else value for key, value in schema.items()
    }
    if made.get("type") == "object" and isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def definition() -> dict[str, Any]:
    """Return the schema that the operator gives to Kubernetes for its PodMonitor."""
    kind = yaml.safe_load(MONITORS.read_text())
    (version,) = (each for each in kind["spec"]["versions"] if each["name"] == "v1")
    schema = closed(version["schema"]["openAPIV3Schema"])
    # of every object, and not the operator's
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


@needs_schema
def test_the_operator_takes_every_pod_monitor(tmp_path: Path) -> None:
    cases = [case for case in manifests.CASES if "monitored" in case.name and not case.missing()]
    monitors = {case.tool: next(of_kind(case.rendered(), "PodMonitor")) for case in cases}
    wrong = json.loads(json.dumps(next(iter(monitors.values()))))
    wrong["spec"]["podMetricsEndpoints"][0]["intervall"] = "15s"
    files = {name: tmp_path / f"{name}.json" for name in (*monitors, "wrong")}
    for name, file in files.items():
        file.write_text(json.dumps(monitors.get(name, wrong)))
    schema = tmp_path / "schema"
    schema.write_text(json.dumps(definition()))
    command = [sys.executable, "-m", "check_jsonschema", "--disable-formats", "*", "-o", "json"]
    command += ["--schemafile", str(schema), *map(str, files.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert {Path(each["filename"]) for each in said["errors"]} == {files["wrong"]}
    assert "intervall" in done.stdout
