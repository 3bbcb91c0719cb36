"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import interrupts
from scale import report
from scale.plan import Plan, quick

_INTERRUPTED: Final = 130


def main() -> None:
    """Run what the command line says."""
    options = _options()
    interrupts.take()
    try:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="sealcar-scale-") as folder:
            found = report.measure(_plan(options, Path(folder)), options.part, options.report)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; the parts that had ended are in the report\n")
        sys.exit(_INTERRUPTED)
    parts = found["parts"]
    sys.stdout.write(f"{options.report}: {', '.join(parts)}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scale")
    parser.add_argument(
        "--part",
        action="append",
        choices=report.PARTS,
        help="only this one, again if repeated; the others stay in the report as they are",
    )
    parser.add_argument("--quick", action="store_true", help="one small round: does it work at all")
    parser.add_argument("--folder", type=Path, help="on the disk that counts; default: temporary")
    parser.add_argument("--report", type=Path, default=report.REPORT, help="where it is kept")
    parser.add_argument("--rounds", type=int, help="samples of each")
    parser.add_argument("--fleet", type=int, help="nodes that want the same package")
    parser.add_argument("--real", type=int, help="how many of them run a daemon")
    parser.add_argument("--rate", type=float, help="bytes a second that the bucket may send them")
    options = parser.parse_args()
    options.part = options.part or list(report.PARTS)
    return options


def _plan(options: argparse.Namespace, folder: Path) -> Plan:
    plan = quick(folder) if options.quick else Plan(folder)
    chosen = {
        name: getattr(options, name)
        for name in ("rounds", "fleet", "real", "rate")
        if getattr(options, name) is not None
    }
    return replace(plan, **chosen)


if __name__ == "__main__":
    main()
