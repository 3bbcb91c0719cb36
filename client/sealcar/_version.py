"""This release.

Written here as in pyproject.toml: to ask the installed distribution takes longer than to connect.
"""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
