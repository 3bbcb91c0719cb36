"""Services of a Compose file, each in the root of its image, as Compose would run it."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

from support.clean_roots import Box, copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.images import Builder, Image


class Composition:
    """What a Compose file describes; use as a context manager, which ends what still runs.

    Args:
        described: the file's content.
        builder: of the images that its services name as targets.
        folder: where its volumes are made.
        port: the one that is published, in place of the file's 8080.
    """

    def __init__(
        self,
        described: dict[str, Any],
        builder: Builder,
        folder: Path,
        port: int,
    ) -> None:
        self._services = described["services"]
        self._builder, self._folder, self._port = builder, folder, str(port)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def run(self, name: str, *command: str, mounts: Sequence[tuple[Path, str, str]] = ()) -> str:
        """Run a service to its end, as `docker compose run` does, and return what it printed."""
        return self._box(name, mounts).run(*self._argv(name, command))

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a service, once those that it depends on are as it wants them."""
        for other, wanted in self._services[name].get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                self.wait_until_healthy(other)
        command = self._box(name).command(*self._argv(name))
        with self._folder.joinpath(f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)
        return self._running[name]

    def wait_until_healthy(self, name: str, patience: float = 60) -> None:
        """Run a service's check until it ends well."""
        described = self._services[name].get("healthcheck")
        image = self._image(name)
        check = described["test"][1:] if described else image.health
        command = self._box(name).command(*self._said(check))
        end = time.monotonic() + patience
        while subprocess.run(command, capture_output=True, check=False).returncode:
            log = self._folder / f"{name}.log"
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)

    def _image(self, name: str) -> Image:
        return self._builder.build(self._services[name]["build"]["target"])

    def _argv(self, name: str, command: Sequence[str] = ()) -> list[str]:
        service, image = self._services[name], self._image(name)
        # an entry point of the service's own takes the image's command away
        default = [] if "entrypoint" in service else image.command
        entry = service.get("entrypoint", image.entrypoint)
        return self._said([*entry, *(command or service.get("command", default))])

    def _said(self, argv: Sequence[str]) -> list[str]:
        # in the file itself a dollar sign is written twice
        return [part.replace("8080", self._port).replace("$$", "$") for part in argv]

    def _box(self, name: str, mounts: Sequence[tuple[Path, str, str]] = ()) -> Box:
        service, image = self._services[name], self._image(name)
        volumes = [self._volume(image, *each.split(":")) for each in service["volumes"]]
        return Box(
            image.root,
            image.environment | service.get("environment", {}),
            image.folder,
            image.ids(service.get("user", "")),
            writable=not service.get("read_only", False),
            mounts=[*volumes, *mounts],
            network=service.get("network_mode") != "none",
        )

    def _volume(
        self, image: Image, name: str, inside: str, mode: str = "rw"
    ) -> tuple[Path, str, str]:
        """Return a volume; a new one begins as what the image has there."""
        volume = self._folder / name
        target = image.root / inside[1:]
        target.mkdir(parents=True, exist_ok=True)
        if not volume.exists():
            copy(target, volume)
        return volume, inside, mode
