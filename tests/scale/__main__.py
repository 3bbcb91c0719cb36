"""`python -m tests.scale [--part NAME] [--quick] …`; see `--help`.

From the root of the tree. Writes build/scale/report.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from scale.command import main

    main()
