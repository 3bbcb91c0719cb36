"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from bench import fairness, flood, interrupts, registry, report
from bench.parts import Setting
from bench.table import text

_INTERRUPTED: Final = 130


def main() -> None:
    """Run what the command line says."""
    options = _options()
    # whatever ends it, what it started and made ends too
    interrupts.take()
    try:
        if options.flood or options.fairness:
            _alone(options)
        else:
            _compared(options)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; the parts that had ended are in the report\n")
        sys.exit(_INTERRUPTED)


def _options() -> argparse.Namespace:
    names = [part.name for part in registry.PARTS]
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--mib", type=int, default=1024, help="size of the big payload")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each way")
    parser.add_argument(
        "--part",
        action="append",
        choices=names,
        help="only this one, again if repeated; the others stay in the report as they are",
    )
    parser.add_argument("--folder", type=Path, help="on the disk that counts; default: temporary")
    parser.add_argument("--report", type=Path, default=report.REPORT, help="where it is kept")
    parser.add_argument("--json", action="store_true", help="print the report and no table")
    parser.add_argument("--quick", action="store_true", help="one small round: does it work at all")
    parser.add_argument("--full", action="store_true", help="payloads of 6 GiB too")
    parser.add_argument("--compare", type=Path, help="an older report.json: what moved")
    parser.add_argument(
        "--flood",
        action="append",
        nargs="?",
        const="",
        choices=["", *flood.KINDS],
        help="floods instead, as root: all kinds, or this one, again if repeated",
    )
    parser.add_argument("--fairness", action="store_true", help="many readers at once instead")
    options = parser.parse_args()
    if options.quick:
        options.mib, options.rounds = min(options.mib, 16), 1
    return options


def _compared(options: argparse.Namespace) -> None:
    old = json.loads(options.compare.read_text()) if options.compare else None
    parts = [part for part in registry.PARTS if part.name in (options.part or [part.name])]
    setting = Setting(
        options.folder or Path(),
        options.mib << 20,
        options.rounds,
        quick=options.quick,
        full=options.full,
    )
    setting.say(f"{len(parts)} parts, about {report.expected(parts, setting)} in all")
    kept = report.stored(options.report) if options.part else {}
    for number, part in enumerate(parts, 1):
        kept |= {part.name: report.run(part, setting, options.folder, f"[{number}/{len(parts)}]")}
        found = report.report(kept, options.folder)
        report.keep(found, options.report)
    sys.stdout.write(json.dumps(found, indent=2) + "\n" if options.json else text(found, old))


def _alone(options: argparse.Namespace) -> None:
    kinds = [kind for kind in options.flood or [] if kind] or flood.KINDS
    measured = flood.measure(options.rounds, kinds) if options.flood else None
    if measured is None:
        fair = fairness.measure(options.folder, options.rounds)
        sys.stdout.write(json.dumps(fair, indent=2) if options.json else fairness.text(fair))
    else:
        sys.stdout.write(json.dumps(measured, indent=2) if options.json else flood.text(measured))


if __name__ == "__main__":
    main()
