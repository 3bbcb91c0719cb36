"""Kills a writer of packages at its Nth step, for every N, each on a copy of one directory.

Run as a program: `python -m support.package_crashing KIND TEMPLATE TARGET`. It leaves TARGET/N for
every N, and prints how many steps there were. With a KIND and one directory it does it there, once.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sealcar import modelpackage
from sealcar.modelpackage import WriteMode

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = (
    *("open", "mkdir", "link", "unlink", "rmdir", "fsync", "rename", "write", "sendfile"),
    *("symlink", "fchmod"),
)


def arm(after: int) -> None:
    """Let the process die, as by kill -9, at its Nth change of the disk; in a write, halfway."""
    left = [after]

    def deadly(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if name == "open" and not int(str(args[1])) & os.O_CREAT:
                return real(*args, **options)
            left[0] -= 1
            if left[0] < 0:
                if name == "write":
                    real(args[0], bytes(args[1])[: len(bytes(args[1])) // 2])  # type: ignore[call-overload]
                elif name == "sendfile":
                    real(args[0], args[1], args[2], 1)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        return step

    for name in STEPS:
        setattr(os, name, deadly(name, getattr(os, name)))


def commit(base: Path, after: int) -> None:
    editor = change(base)
    arm(after)
    editor.commit()


def change(base: Path) -> modelpackage.Editor:
    """Change a bit of everything: two component files, the manifest, an asset more and one less."""
    editor = modelpackage.edit(base / "p")
    editor.set_metadata(version="2")
    editor.set_variant("d", "v", {"ep": "new"})
    editor.set_additional_metadata({"new": True}, component="e", variant="x")
    editor.remove_variant("main", "old")
    editor.add_shared_asset(base / "asset")
    editor.remove_shared_asset(next(iter(editor.package.shared_assets)))
    return editor


def commit_one(base: Path, after: int) -> None:
    editor = modelpackage.edit(base / "p")
    editor.set_variant("d", "v", {"ep": "new"})
    arm(after)
    editor.commit()


def commit_removal(base: Path, after: int) -> None:
    """Remove an asset along with a change of one file, and the manifest stays as it is."""
    file = base / "p" / "manifest.json"
    text = file.read_text().replace(',\n  "shared_assets": {}', "")
    file.write_text(text)
    editor = modelpackage.edit(base / "p")
    editor.set_variant("d", "v", {"ep": "new"})
    editor.remove_shared_asset(next(iter(editor.package.shared_assets)))
    arm(after)
    editor.commit()
    assert file.read_text() == text


def dense(base: Path, after: int) -> None:
    editor = modelpackage.edit(base / "p")
    arm(after)
    editor.commit(WriteMode.DENSE)


def save(base: Path, after: int) -> None:
    editor = modelpackage.edit(base / "p")
    arm(after)
    editor.save_as(base / "copy")


def prune(base: Path, after: int) -> None:
    editor = change(base)
    editor.remove_component("e")
    editor.commit()
    arm(after)
    editor.prune()


KINDS = {item.__name__: item for item in (commit, commit_one, commit_removal, dense, save, prune)}


def main(kind: str, template: Path, target: Path) -> None:
    after = 0
    while True:
        base = target / str(after)
        shutil.copytree(template, base, symlinks=True)
        child = os.fork()
        if child == 0:
            KINDS[kind](base, after)
            # what comes after the call has returned is no step of it
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            break
        after += 1
    if os.WEXITSTATUS(status) != 0:
        raise SystemExit("the writer failed without being killed")
    sys.stdout.write(f"{after}\n")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        KINDS[sys.argv[1]](Path(sys.argv[2]), 1 << 30)
