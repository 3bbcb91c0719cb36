"""Where the daemon's commands look when they aren't told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SYSTEM: Final = Path("/etc/sealcar/sealcar.toml")
CONFIG: Final = "sealcar.toml"


def home() -> Path:
    """Return the directory of a user's own daemon."""
    data = os.environ.get("XDG_DATA_HOME")
    base = Path(data) if data else Path.home() / ".local" / "share"
    return base / "sealcar"


def config() -> Path:
    """Return the settings file that an empty command line means."""
    return SYSTEM if SYSTEM.exists() else home() / CONFIG
