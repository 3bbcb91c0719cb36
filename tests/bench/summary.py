"""What one run says: ratios under fixed names, goals that they meet or don't, and what moved."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS: Final = "sealcar, page + 64"
_READS: Final = {
    "blob_read_vs_qnn_like": "plain, as an EP reads (zeroed, page + 16)",
    "blob_read_vs_plain_aligned": "plain, page + 64",
    "blob_read_vs_plain_huge": "plain, page + 64, huge pages",
    "blob_read_vs_tmpfs": "decrypted to tmpfs, then as an EP reads",
}
_SHARED: Final = (
    "second_worker_available_vs_first",
    "second_worker_touched_vs_first",
    "workers8_pss_vs_one",
)
GOALS: Final[Mapping[str, float]] = {
    "blob_read_vs_qnn_like": 0.4,
    "blob_read_vs_plain_aligned": 0.7,
    "blob_read_vs_tmpfs": 0.25,
    "blob_write_vs_plain": 1.1,
    "second_worker_available_vs_first": 0.1,
    "second_worker_touched_vs_first": 0.25,
    "workers8_pss_vs_one": 1.1,
    "overhead_mib_1gib": 20.0,
    "small_p50_ms": 0.3,
}


def ratios(found: Mapping[str, Any], shared: Mapping[str, float]) -> dict[str, float]:
    """Return time ours ÷ time reference of one run, and the figures that are no ratios of times."""
    reads, writes, memory = found["reads"], found["writes"], found["memory"]
    ours = reads[_OURS]["seconds"]
    over = memory["client_over_buffer"] + memory["daemon_peak"] - memory["daemon_idle"]
    return {
        **{name: ours / reads[way]["seconds"] for name, way in _READS.items()},
        "blob_write_vs_plain": writes["sealcar"]["seconds"]
        / writes["plain, write and fsync"]["seconds"],
        **{name: shared[name] for name in _SHARED},
        _overhead_name(found["size"]): over / 2**20,
        "small_p50_ms": found["small_read"]["p50"] * 1000,
    }


def _overhead_name(size: int) -> str:
    return "overhead_mib_1gib" if size == 1 << 30 else f"overhead_mib_at_{size >> 20}_mib"


def goals(figures: Mapping[str, float]) -> dict[str, bool]:
    """Return which goals are met."""
    return {name: figures[name] <= most for name, most in GOALS.items() if name in figures}


def moved(new: Mapping[str, float], old: Mapping[str, float]) -> dict[str, float]:
    """Return new ÷ old of every figure that both runs have."""
    return {name: new[name] / old[name] for name in new if old.get(name)}


def machine() -> dict[str, str]:
    """Describe what the figures were measured on."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    memory = Path("/proc/meminfo").read_text().splitlines()[0]
    return {
        "cpu": next((line.split(":")[1].strip() for line in cpus if "model name" in line), ""),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "compiler": platform.python_compiler(),
        "huge_pages": huge.read_text().strip() if huge.exists() else "none",
        "memory": memory.split(":")[1].strip(),
        "affinity": ",".join(str(each) for each in sorted(os.sched_getaffinity(0))),
    }


def text(figures: Mapping[str, float], old: Mapping[str, float] | None) -> str:
    """Return it as lines for people."""
    met, changes = goals(figures), moved(figures, old or {})
    lines = []
    for name, value in figures.items():
        goal = f"  goal {GOALS[name]:g} {'met' if met[name] else 'NOT met'}" if name in met else ""
        change = f"  was {old[name]:.3f} (x{changes[name]:.2f})" if old and name in changes else ""
        lines.append(f"{name:36}{value:8.3f}{goal}{change}")
    return "\n".join(lines) + "\n"
