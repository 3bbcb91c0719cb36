"""What a checking process is told, and what it answers: JSON both ways."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# bytes of an answer, which a pipe holds: whoever reads it reads no more
MAX_ANSWER: Final = 4096
# of a reason in it
MAX_REASON: Final = 1000


@dataclass(frozen=True)
class Folder:
    """Where a name in a model may lead.

    Attributes:
        files: kind and size of all files of a variant or shared asset, by name.
        prefix: directory in it that names are relative to; empty: itself.
    """

    files: Mapping[str, tuple[str, int]]
    prefix: str = ""


@dataclass(frozen=True)
class Job:
    """One model to be checked.

    Attributes:
        descriptor: of the model's bytes.
        size: of the model.
        name: relative to where its blobs would lie.
        data: where the names of its external data may lead.
        blobs: where the names of its blobs may lead.
    """

    descriptor: int
    size: int
    name: str
    data: tuple[Folder, ...]
    blobs: tuple[Folder, ...]


@dataclass(frozen=True)
class Orders:
    """All that a process is told.

    Attributes:
        seconds: of computing that it has.
        memory: bytes that it may take beside the models.
        jobs: in this order.
    """

    seconds: int
    memory: int
    jobs: tuple[Job, ...]


def written(orders: Orders) -> bytes:
    """Return orders as text; each set of files stands there once, however often it is used."""
    sets: dict[int, int] = {}
    files: list[Mapping[str, tuple[str, int]]] = []

    def places(folders: Iterable[Folder]) -> list[tuple[int, str]]:
        for folder in folders:
            if sets.setdefault(id(folder.files), len(files)) == len(files):
                files.append(folder.files)
        return [(sets[id(folder.files)], folder.prefix) for folder in folders]

    jobs = [
        {**vars(job), "data": places(job.data), "blobs": places(job.blobs)} for job in orders.jobs
    ]
    return json.dumps({**vars(orders), "jobs": jobs, "files": files}).encode()


def read(text: bytes) -> Orders:
    """Return what `written` wrote. It comes from the daemon, so it isn't checked."""
    told = json.loads(text)

    def folders(places: list[tuple[int, str]]) -> tuple[Folder, ...]:
        return tuple(Folder(told["files"][number], prefix) for number, prefix in places)

    jobs = tuple(
        Job(**{**job, "data": folders(job["data"]), "blobs": folders(job["blobs"])})
        for job in told["jobs"]
    )
    return Orders(told["seconds"], told["memory"], jobs)


def answer(*, filtered: bool, refused: tuple[int, str] | None = None) -> bytes:
    """Return an answer as text.

    Args:
        filtered: the process could make no system call but a few.
        refused: which job, and why; None: all models may be stored.
    """
    value: dict[str, Any] = {"filtered": filtered, "refused": None}
    if refused:
        value["refused"] = {"job": refused[0], "reason": refused[1]}
    return json.dumps(value).encode()
