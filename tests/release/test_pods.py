"""The manifests of deploy/, run: each container in its image's root, as the user that it names."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from support import clean_roots, manifests
from support.pods import Pod

if TYPE_CHECKING:
    from pathlib import Path

    from support.clean_roots import Box
    from support.images import Builder
    from support.manifests import Case

SIDECARS: Final = ("base", "sidecar", "openshift")
NODES: Final = ("overlays/node", "node")
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(clean_roots.missing()), reason=clean_roots.missing()),
]


def of(names: tuple[str, ...]) -> pytest.MarkDecorator:
    cases = [case for case in manifests.CASES if case.name in names]
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.tool}-{case.name}")


def rendered(case: Case) -> manifests.Objects:
    if reason := case.missing():
        pytest.skip(reason)
    return case.rendered()


def listed(box: Box) -> list[str]:
    said = box.run("sealcar", "ls", "--json")
    return [each["name"] for each in json.loads(said)["packages"]]


@of(SIDECARS)
def test_a_sidecar_serves_its_application_and_nobody_else(
    case: Case, builder: Builder, open_path: Path
) -> None:
    with Pod(rendered(case), builder, open_path) as pod:
        pod.run("directory")
        # a pod that comes again finds what there is
        pod.run("directory")
        daemon = pod.start("sealcar")
        assert [pod.probe("sealcar", kind) for kind in PROBES] == [0, 0, 0]
        application = pod.box("application")
        assert listed(application) == []
        # who isn't of the sockets' group doesn't get in, and the daemon's own user isn't served
        stranger = replace(application, user=(4321, 4321), groups=())
        with pytest.raises(AssertionError, match="DeniedError"):
            listed(stranger)
        with pytest.raises(AssertionError, match="DeniedError"):
            listed(replace(application, user=pod.box("sealcar").user))
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
        assert pod.probe("sealcar", "livenessProbe") != 0


@of(NODES)
def test_a_node_s_daemon_gives_each_tenant_a_door_of_its_own(
    case: Case, builder: Builder, open_path: Path
) -> None:
    with Pod(rendered(case), builder, open_path) as pod:
        pod.run("directory")
        pod.run("key")
        pod.start("sealcar")
        assert [pod.probe("sealcar", kind) for kind in PROBES] == [0, 0, 0]
        image = builder.build("client")
        inside = image.root / "run/sealcar/tenant"
        inside.mkdir(parents=True, exist_ok=True)
        mounted = (open_path / "sockets" / "tenant-a", "/run/sealcar/tenant", "ro")
        environment = image.environment | {"SEALCAR_SOCKET": "/run/sealcar/tenant/run"}
        tenant = replace(
            pod.box("sealcar"),
            root=image.root,
            environment=environment,
            user=(5000, 2001),
            groups=(),
            mounts=[mounted],
        )
        assert listed(tenant) == []
        # who isn't of the tenant's group doesn't get in
        with pytest.raises(AssertionError, match="DeniedError"):
            listed(replace(tenant, user=(5000, 2002)))
