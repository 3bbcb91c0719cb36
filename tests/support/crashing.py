"""Kills a writer at its Nth step, for every N, each on a copy of one directory.

Run as a program: `python -m support.crashing KIND TEMPLATE TARGET`, see `work` for the kinds. It
leaves TARGET/N for every N, and prints how many steps there were. With `KIND ROOT` alone the writer
goes through to its end in ROOT, for others to kill.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.asset_packages import VOCABULARY, AssetPackage, ort, uri_of, weights_in
from support.services import ME, Running

from sealcar_server.service.pruning import Wanted as Pruned
from sealcar_server.service.rewrapping import Wanted
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable

_CHANGING = os.O_CREAT | os.O_WRONLY | os.O_RDWR
STEPS = ("open", "mkdir", "link", "unlink", "rmdir", "fsync", "rename", "pwrite", "flock")

_MERGES = {"merges.txt": b"a b"}
# one of its assets is that of `AssetPackage.with_weights`, the other one is new
SHARING = AssetPackage(
    {uri_of(VOCABULARY): VOCABULARY, uri_of(_MERGES): _MERGES},
    {
        ("det", "onnx"): weights_in(uri_of(VOCABULARY)),
        ("det", "two"): ort(f"{uri_of(_MERGES)}/merges.txt"),
    },
)


def arm(after: int) -> None:
    """Let the process die, as by kill -9, instead of making its Nth change to the file system."""
    left = [after]
    really_open = os.open

    def deadly(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            flags = args[1] if real is really_open else None
            if isinstance(flags, int) and not flags & _CHANGING:
                return real(*args, **options)
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        return step

    for name in STEPS:
        if hasattr(os, name):
            setattr(os, name, deadly(getattr(os, name)))


def work(kind: str, root: Path, after: int) -> None:
    with Running(root) as running:
        scope = ScopeKey("ocr", "", "det", "qnn")
        if kind == "import":
            arm(after)
            running.import_("ocr", "2", payloads={("det", "onnx", "model.onnx"): b"second"})
        elif kind == "assets":
            arm(after)
            SHARING.import_into(running, "ocr", "2")
        elif kind == "rewrap":
            arm(after)
            running.service.keys.rewrap(Wanted(), lambda *_: None)
        elif kind == "remove":
            arm(after)
            running.service.removing.remove(ME, "ocr", "1")
        elif kind == "prune":
            arm(after)
            running.service.pruning.prune(ME, Pruned("ocr", keep=1))
        elif kind == "choose":
            arm(after)
            running.service.choosing.choose(ME, "ocr", "1")
        elif kind == "reseal":
            seen = running.service.resealer.reseal(ME, "ocr", "", None)
            arm(after)
            running.service.resealer.reseal(ME, "ocr", "", seen.manifest_sha256)
        elif kind == "shred":
            arm(after)
            running.service.keys.shred("ocr")
        else:
            transaction = running.begin(scope)
            running.write(transaction, "model.onnx", b"compiled")
            arm(after)
            running.commit(transaction)
        # what comes after the acknowledgement is no step of it
        os._exit(0)


def main(kind: str, template: Path, target: Path) -> None:
    after = 0
    while True:
        root = target / str(after)
        shutil.copytree(template, root)
        child = os.fork()
        if child == 0:
            work(kind, root, after)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            break
        after += 1
    if os.WEXITSTATUS(status) != 0:
        raise SystemExit("the writer failed without being killed")
    sys.stdout.write(f"{after}\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(sys.argv[1], Path(sys.argv[2]), sys.maxsize)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
