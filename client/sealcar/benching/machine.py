"""What decides figures beside the code: recorded with every one of them."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sealcar import native

if TYPE_CHECKING:
    from sealcar.ort.runtime import Session, SessionOptions

_MADE_BY = re.compile(rb"GCC: \([^)]*\) [0-9.]+|[a-z ]*clang version [0-9.]+")


def description() -> dict[str, str]:
    """Describe this machine, as far as it decides how long loading takes."""
    return {
        "cpu": _line("/proc/cpuinfo", "model name"),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "huge pages": _content("/sys/kernel/mm/transparent_hugepage/enabled"),
        "affinity": affinity(),
        "python": platform.python_version(),
        "python's compiler": platform.python_compiler(),
        "native part's compiler": native_compiler(),
        "sealcar": version("sealcar"),
    }


def affinity() -> str:
    """Return the cores that this process may run on."""
    return ",".join(str(each) for each in sorted(os.sched_getaffinity(0)))


def native_compiler() -> str:
    """Return what the native part was compiled with."""
    try:
        found = _MADE_BY.search(native.PATH.read_bytes())
    except OSError:
        return "none: built without it"
    return found[0].decode().strip() if found else "unknown"


def runtime_facts(options: SessionOptions, provider: str, provider_version: str) -> dict[str, str]:
    """Return what a process knows of the runtime before it loads anything."""
    from sealcar.ort import runtime  # noqa: PLC0415  (only where something is loaded)

    threads = options.intra_op_num_threads or f"the runtime's choice, {affinity()}"
    return {
        "onnxruntime": runtime.onnxruntime().__version__,
        "ep": provider,
        "ep version": provider_version,
        "threads in an operator": str(threads),
        "threads between operators": str(options.inter_op_num_threads or "the runtime's choice"),
        "execution": str(options.execution_mode).rpartition(".")[2],
        "optimisation": str(options.graph_optimization_level).rpartition(".")[2],
    }


def session_facts(session: Session) -> dict[str, str]:
    """Return what a session says about itself."""
    return {"providers": ",".join(session.get_providers())}


def version_of(module: str) -> str:
    """Return the version of the distribution that a module comes from."""
    try:
        names: Any = packages_distributions().get(module.partition(".")[0], [module])
        return version(names[0])
    except PackageNotFoundError:
        return "unknown"


def _line(path: str, name: str) -> str:
    for line in _content(path).splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def _content(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"
