"""What the figures were measured on: what decides them, and what somebody else has otherwise."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from cryptography.hazmat.backends.openssl import backend

from sealcar.benching.machine import affinity

_AES: Final = ("aes", "vaes", "pclmulqdq", "vpclmulqdq", "pmull")
_HUGE: Final = Path("/sys/kernel/mm/transparent_hugepage")
_REPORTING: Final = 5  # the bit of a balloon by which a machine gives free pages back to its host
_PACKAGES: Final = ("sealcar", "onnxruntime", "numpy", "cryptography", "grpcio")


def machine(folder: Path) -> dict[str, str]:
    """Describe it.

    Args:
        folder: where the files are that are read and written.
    """
    return {
        "cpu": _line("/proc/cpuinfo", "model name"),
        "cores": str(os.cpu_count()),
        "affinity": affinity(),
        "aes": " ".join(each for each in _flags() if each in _AES) or "none",
        "memory": _line("/proc/meminfo", "MemTotal"),
        "kernel": f"{platform.system()} {_release()} {platform.machine()}",
        "huge_pages": _chosen(_HUGE / "enabled"),
        "huge_pages_of_shared_memory": _chosen(_HUGE / "shmem_enabled"),
        "free_page_reporting": _reporting(),
        "file_system": _file_system(folder),
        "python": f"{platform.python_version()}, built with {platform.python_compiler()}",
        "compiler": _compiler(),
        "openssl": backend.openssl_version_text(),
        **{name: _version(name) for name in _PACKAGES},
        "commit": _said("git", "describe", "--always", "--dirty"),
    }


def _release() -> str:
    """Return the kernel's version as its makers count; what comes after is a distribution's."""
    return ".".join(platform.release().split(".")[:2])


def _line(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _flags() -> list[str]:
    return (_line("/proc/cpuinfo", "flags") or _line("/proc/cpuinfo", "Features")).split()


def _chosen(path: Path) -> str:
    """Return the word in brackets of a kernel's setting."""
    text = path.read_text() if path.exists() else "[none]"
    return text[text.index("[") + 1 : text.index("]")]


def _reporting() -> str:
    """Say whether free memory goes back to a host; touching it again is then slow."""
    balloons = list(Path("/sys/bus/virtio/drivers/virtio_balloon").glob("virtio*/features"))
    bits = [each.read_text()[_REPORTING] for each in balloons]
    if "1" in bits:
        return "yes; free memory is touched once before each sample"
    return "no balloon reports free pages; free memory is touched once before each sample"


def _file_system(folder: Path) -> str:
    """Return the kind of file system that holds a folder, by the longest mount point above it."""
    place = str(folder.resolve())
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [
        (point, kind) for point, kind in mounts if f"{place}/".startswith(point.rstrip("/") + "/")
    ]
    return max(above, key=lambda each: len(each[0]))[1]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return _said(name, "--version").partition("\n")[0]
    return "none"


def _said(*command: str) -> str:
    if not shutil.which(command[0]):
        return "unknown"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
