"""`python -m tests.bench [--mib N] [--rounds N] [--quick] [--compare OLD.json] [--json]`.

From the root of the tree. Writes build/bench/report.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from bench.report import main

    main()
