"""Pods of a manifest, each container in the root of its image, as a kubelet would run it."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any, Final, Self

from support.clean_roots import Box
from support.manifests import containers_of, of_kind, pod_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.images import Builder, Image
    from support.manifests import Objects

# which target of the Dockerfile an image of a manifest is
_TARGETS: Final = {"your-application": "client"}


class Pod:
    """The only pod of some objects; use as a context manager, which ends what still runs.

    Args:
        objects: what a manifest holds.
        builder: of the images.
        folder: where volumes are made, and what of the node is mounted.
    """

    def __init__(self, objects: Objects, builder: Builder, folder: Path) -> None:
        self._pod = pod_of(objects)
        self._builder, self._folder = builder, folder
        (self._config,) = of_kind(objects, "ConfigMap")
        self.containers = containers_of(self._pod)
        self._running: list[subprocess.Popen[bytes]] = []
        for volume in self._pod["volumes"]:
            self._make(volume)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def run(self, name: str) -> str:
        """Run a container that comes first to its end."""
        return self.box(name).run(*self.containers[name]["command"])

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a container, and wait for its startup probe."""
        described = self.containers[name]
        argv = [*self._image(described).entrypoint, *described["args"]]
        with self._folder.joinpath(f"{name}.log").open("ab") as log:
            process = subprocess.Popen(self.box(name).command(*argv), stdout=log, stderr=log)
        self._running.append(process)
        end = time.monotonic() + 60
        while self.probe(name, "startupProbe"):
            assert process.poll() is None, self._folder.joinpath(f"{name}.log").read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
        return process

    def probe(self, name: str, kind: str) -> int:
        """Return how a probe of a container ends."""
        argv = self.containers[name][kind]["exec"]["command"]
        command = self.box(name).command(*argv)
        return subprocess.run(command, capture_output=True, check=False).returncode

    def box(self, name: str) -> Box:
        """Return how a container is held."""
        described = self.containers[name]
        image, context = self._image(described), described["securityContext"]
        given = {each["name"]: each["value"] for each in described.get("env", ())}
        user = (context["runAsUser"], context.get("runAsGroup", 0))
        shared = self._pod["securityContext"]
        groups = [
            *shared["supplementalGroups"],
            *([shared["fsGroup"]] if "fsGroup" in shared else []),
        ]
        return Box(
            image.root,
            image.environment | given,
            image.folder,
            # who changes owners keeps the power to
            user if user[0] else None,
            groups,
            writable=not context.get("readOnlyRootFilesystem", False),
            mounts=[self._mount(image, each) for each in described["volumeMounts"]],
            network=False,
        )

    def _image(self, described: dict[str, Any]) -> Image:
        name = described["image"].partition(":")[0]
        return self._builder.build(_TARGETS.get(name, "daemon"))

    def _make(self, volume: dict[str, Any]) -> None:
        path = self._folder / volume["name"]
        path.mkdir()
        group = self._pod["securityContext"].get("fsGroup")
        if "emptyDir" in volume:
            path.chmod(0o777)
        elif "configMap" in volume:
            for name, text in self._config["data"].items():
                path.joinpath(name).write_text(text)
                path.joinpath(name).chmod(volume["configMap"]["defaultMode"])
        elif group is not None and "persistentVolumeClaim" in volume:
            command = ["chown", f"0:{group}", str(path)]
            subprocess.run(command, check=True)
            path.chmod(0o2775)

    def _mount(self, image: Image, described: dict[str, Any]) -> tuple[Path, str, str]:
        outside = self._folder / described["name"]
        if "subPath" in described:
            outside /= described["subPath"]
        inside = image.root / described["mountPath"][1:]
        if outside.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        read_only = described.get("readOnly") or outside.is_file()
        return outside, described["mountPath"], "ro" if read_only else "rw"
