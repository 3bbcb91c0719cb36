"""Images built from a Dockerfile without an engine: each stage a root, each step run in it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support import dockerfile
from support.clean_roots import Box, copy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.dockerfile import Instruction, Stage

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Image:
    """A root, and how what runs in it is started."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    folder: str = "/"
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    stop: str = ""

    def ids(self, user: str = "") -> tuple[int, int]:
        """Return uid and gid, of which both must be numbers."""
        uid, _, gid = (user or self.user).partition(":")
        return int(uid), int(gid)


class Builder:
    """Builds targets of a Dockerfile.

    Args:
        path: the Dockerfile; what is beside it is the context, less what .dockerignore names.
        base: root that stands in for the image of a registry.
        folder: where roots are made.
        reaching: environment of each step besides its own: how registries are reached.
    """

    def __init__(self, path: Path, base: Path, folder: Path, reaching: Mapping[str, str]) -> None:
        self._context, self._base, self._folder = path.parent, base, folder
        self._reaching = reaching
        self._arguments, stages = dockerfile.read(path)
        self._stages = {stage.name: stage for stage in stages}
        self._built: dict[str, Image] = {}
        ignored = path.with_name(".dockerignore").read_text().splitlines()
        self._ignored = [line for line in ignored if line and not line.startswith("#")]

    def build(self, target: str) -> Image:
        """Return the image of a stage, built at its first use."""
        if target not in self._built:
            self._built[target] = self._build(self._stages[target])
        return self._built[target]

    def _build(self, stage: Stage) -> Image:
        root = self._folder / stage.name
        if stage.base == "scratch":
            root.mkdir()
            image = Image(root)
        else:
            below = self.build(stage.base) if stage.base in self._stages else Image(self._base)
            copy(below.root, root)
            image = Image(root, dict(below.environment), below.folder)
        arguments: dict[str, str] = {}
        for each in stage.instructions:
            self._step(image, each, arguments)
        return image

    def _step(self, image: Image, step: Instruction, arguments: dict[str, str]) -> None:
        values = arguments | image.environment
        match step.word:
            case "ARG":
                name, _, value = step.rest.partition("=")
                arguments[name] = value.strip('"') or self._arguments.get(name, "")
            case "ENV":
                image.environment |= dockerfile.pairs(dockerfile.expand(step.rest, values))
            case "LABEL":
                image.labels |= dockerfile.pairs(dockerfile.expand(step.rest, values))
            case "WORKDIR":
                image.folder = step.rest
                image.root.joinpath(step.rest[1:]).mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(image, step)
            case "RUN":
                environment = {**self._reaching, **arguments, **image.environment}
                box = Box(image.root, environment, image.folder, writable=True)
                box.run("sh", "-c", step.rest)
            case _:
                _describe(image, step)

    def _copy(self, image: Image, step: Instruction) -> None:
        *sources, target = step.arguments()
        into = image.root / (Path(image.folder) / target).relative_to("/")
        stage = step.flags().get("from")
        for source in sources:
            if stage:
                found = self.build(stage).root / source[1:]
                into.parent.mkdir(parents=True, exist_ok=True)
                copy(found, into)
            elif (found := self._context / source).is_dir():
                shutil.copytree(found, into, ignore=self._left_out, dirs_exist_ok=True)
            else:
                as_name = into / found.name if target.endswith("/") or into.is_dir() else into
                as_name.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, as_name)

    def _left_out(self, folder: str, names: list[str]) -> set[str]:
        below = Path(folder).relative_to(self._context)

        def ignored(name: str) -> bool:
            return any(
                fnmatch(name, pattern[3:])
                if pattern.startswith("**/")
                else fnmatch(str(below / name), pattern)
                for pattern in self._ignored
            )

        return {name for name in names if ignored(name)}


def _describe(image: Image, step: Instruction) -> None:
    match step.word:
        case "USER":
            image.user = step.rest
        case "ENTRYPOINT":
            image.entrypoint = step.arguments()
        case "CMD":
            image.command = step.arguments()
        case "HEALTHCHECK":
            image.health = json.loads(step.rest.partition("CMD ")[2])
        case "STOPSIGNAL":
            image.stop = step.rest
        case word:
            assert word == "EXPOSE", f"unknown instruction {word}"
