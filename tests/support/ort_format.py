"""Models in ONNX Runtime's own format, and where a process has such a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from support import eps, models

from sealcar.ort import runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

# enough for the runtime to be given it by a path: two matrices of 2.25 MiB
WIDTH: Final = 768
OWN: Final = "/memfd:sealcar-payload"
SHARED: Final = "/memfd:sealcar-segment"
_WORDS: Final = 6


class Map(NamedTuple):
    """A map of memory that has a name.

    Attributes:
        name: of the memory.
        inode: the same in all processes.
        flags: as the kernel writes them: "dd" is left out of dumps.
    """

    name: str
    inode: int
    flags: frozenset[str]


def plain(width: int = WIDTH) -> bytes:
    """Return the ONNX model that `converted` is made of."""
    return models.split_model(width, parts=2)


def converted(path: Path, width: int = WIDTH) -> Path:
    """Write a model in the runtime's own format."""
    options = eps.quiet_options()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    runtime.onnxruntime().InferenceSession(
        plain(width), options, providers=["CPUExecutionProvider"]
    )
    return path


def maps() -> list[Map]:
    """Return where this process has payloads mapped: its own ones, and shared ones."""
    return list(_maps(Path("/proc/self/smaps").read_text().splitlines()))


def _maps(lines: list[str]) -> Iterator[Map]:
    name, inode = "", 0
    for line in lines:
        words = line.split(maxsplit=_WORDS - 1)
        if words[0] == "VmFlags:" and name.startswith((OWN, SHARED)):
            yield Map(name.removesuffix(" (deleted)"), inode, frozenset(line.split()[1:]))
        elif not words[0].endswith(":"):
            name = words[5] if len(words) == _WORDS else ""
            inode = int(words[4])
