"""A clean root with Debian and its Python, in place of an image of a registry; processes in roots.

Where there is no container engine, what one would do is done with debootstrap, unshare and chroot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RELEASE: Final = "trixie"
PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_PASSED: Final = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL")
# mounts are of this process alone, and gone with it
_INSIDE: Final = """
root=$1 writable=$2; shift 2
mount --bind "$root" "$root"
test "$writable" = yes || mount -o remount,bind,ro "$root"
mount -t proc -o ro proc "$root/proc"
while test "$1" != --; do
    mount --bind "$1" "$root$2"
    test "$3" != ro || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Box:
    """How a process is held in a root.

    Attributes:
        root: its root.
        environment: all of its environment.
        folder: its working directory.
        user: uid and gid that it runs as, without any power; root with all of them if None.
        groups: gids that it is a member of besides.
        writable: whether the root may be written.
        mounts: what is mounted where: (directory outside, path inside, "rw" or "ro").
        network: whether it has any.
    """

    root: Path
    environment: Mapping[str, str]
    folder: str = "/"
    user: tuple[int, int] | None = None
    groups: Sequence[int] = ()
    writable: bool = False
    mounts: Sequence[tuple[Path, str, str]] = field(default=())
    network: bool = True

    def command(self, *argv: str) -> list[str]:
        """Return the command line outside that runs argv inside."""
        outside = ["unshare", "--mount", *(() if self.network else ("--net",))]
        mounts = [part for mount in self.mounts for part in map(str, mount)]
        dropped: list[str] = []
        if self.user is not None:
            uid, gid = self.user
            named = ",".join(map(str, self.groups))
            groups = f"--groups={named}" if named else "--clear-groups"
            dropped = [
                *("setpriv", f"--reuid={uid}", f"--regid={gid}", groups),
                *("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
            ]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return [
            *(*outside, "sh", "-euc", _INSIDE, "sh"),
            *(str(self.root), "yes" if self.writable else "no", *mounts, "--"),
            *(*dropped, "env", "-i", f"--chdir={self.folder}", *variables, *argv),
        ]

    def run(self, *argv: str) -> str:
        """Run argv inside and return what it printed; it must end well."""
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def missing() -> str:
    """Return why there can be no clean root here, or nothing."""
    if os.geteuid() != 0:
        return "needs root"
    tools = ("debootstrap", "unshare", "setpriv", "chroot")
    absent = [tool for tool in tools if not shutil.which(tool)]
    return f"needs {', '.join(absent)}" if absent else ""


def reaching() -> dict[str, str]:
    """Return the environment with which a process in a root reaches package registries."""
    passed = {name: value for name, value in os.environ.items() if name.lower() in _PASSED}
    index = {"PIP_INDEX_URL": os.environ["PIP_INDEX_URL"]} if "PIP_INDEX_URL" in os.environ else {}
    return passed | index | {"PIP_CERT": _CERTIFICATES, "PIP_NO_INPUT": "1"}


def debian(folder: Path) -> Path:
    """Make a root as `python:3.13-slim-trixie` has one: Debian, `python` and `pip`, no compiler."""
    root = folder / "debian"
    # what it mounts is gone with it, even if it is killed
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase"]
    command.append(f"--include={','.join(PACKAGES)}")
    with folder.joinpath("debootstrap.log").open("wb") as log:
        subprocess.run([*command, RELEASE, root, _mirror()], stdout=log, stderr=log, check=True)
    root.joinpath("usr/local/bin/python").symlink_to("/usr/bin/python3")
    for file in ("/etc/resolv.conf", "/etc/hosts", _CERTIFICATES):
        shutil.copyfile(file, root / file[1:])
    for proxy in Path("/etc/apt/apt.conf.d").glob("*proxy*"):
        shutil.copy(proxy, root / "etc/apt/apt.conf.d")
    return root


def copy(source: Path, target: Path) -> None:
    """Copy a directory with owners and links; `target` becomes it, or has it merged in."""
    command = ["cp", "--archive", "--one-file-system", "--no-target-directory"]
    command += [str(source), str(target)]
    subprocess.run(command, check=True)


def _mirror() -> str:
    """Return where this machine's own Debian packages come from."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"https?://\S+/debian/?(?=\s)", text)
    assert found, "no Debian mirror in /etc/apt"
    return found[0]
