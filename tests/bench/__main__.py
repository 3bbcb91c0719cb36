"""`python -m tests.bench [--part NAME] [--quick] [--full] [--compare OLD.json] …`; see `--help`.

From the root of the tree. Writes build/bench/report.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from bench.command import main

    main()
