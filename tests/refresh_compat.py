"""Find out whether the installed plugins work with the installed runtime, and write it down.

    python tests/refresh_compat.py

Runs the tests of the callbacks with the installed versions, known or not; if they pass, the pairs
go into client/sealcar/ort/compat_versions.json, whose change is then reviewed and committed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from sealcar.ort import compat, runtime

TESTS = Path(__file__).parent
SUITES = ("test_adapters_*.py", "test_compat_wrapper.py")


def main() -> int:
    os.environ["SEALCAR_REFRESH_COMPAT"] = "1"
    files = [str(path) for suite in SUITES for path in sorted((TESTS / "e2e").glob(suite))]
    failed = pytest.main(["-q", *files])
    if failed:
        return int(failed)
    minor = ".".join(map(str, runtime.version()))
    data = Path(compat.__file__).with_name(compat.DATA)
    rows = json.loads(data.read_text())
    for row, plugin in zip(rows, compat.plugins(), strict=True):
        installed = plugin.installed()
        if installed is not None:
            known = set(row["tested"].get(installed, ()))
            row["tested"][installed] = sorted({*known, minor}, key=runtime.parse)
    data.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
