"""ONNX Runtime itself, imported only after its event database is switched off.

From 1.29 on the runtime keeps a database of events below the user's cache folder, with blob names
and the texts of failed callbacks in it. Only the environment variable stops it, and only before
the import; so importing this module sets the variable, and says so when it comes too late.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sealcar.errors import RuntimeSupportError

if TYPE_CHECKING:
    from types import ModuleType

SWITCH: Final = "ORT_DISABLE_TELEMETRY"
OLDEST: Final = (1, 28)
FIRST_STABLE: Final = (1, 31)
# from here on others run while a session is made
FIRST_WITHOUT_LOCK: Final = (1, 31)
_FIRST_WITH_DATABASE: Final = (1, 29)

# onnxruntime publishes no types
Untyped: TypeAlias = Any
SessionOptions: TypeAlias = Any
Session: TypeAlias = Any
Device: TypeAlias = Any
# a ModelCompiler, or the address of an OrtModelCompilationOptions
Compiler: TypeAlias = Any


class EventDatabaseWarning(UserWarning):
    """ONNX Runtime was imported before sealcar could switch its event database off."""


def switch_events_off() -> None:
    """Switch the event database off; warn if the runtime is imported already with it on."""
    if os.environ.get(SWITCH, "").lower() in {"1", "true"}:
        return
    os.environ[SWITCH] = "1"
    loaded = sys.modules.get("onnxruntime")
    if loaded is not None and parse(getattr(loaded, "__version__", "")) >= _FIRST_WITH_DATABASE:
        warnings.warn(
            "onnxruntime was imported before sealcar.ort, so it keeps its event database on disk; "
            f"import sealcar.ort first, or set {SWITCH}=1",
            EventDatabaseWarning,
            stacklevel=2,
        )


def parse(text: str) -> tuple[int, int]:
    """Return major and minor of a version, or (0, 0) if it has none."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@cache
def onnxruntime() -> ModuleType:
    """Return the runtime's module.

    Raises:
        RuntimeSupportError: it isn't installed, can't be imported, or is older than 1.28.
    """
    try:
        import onnxruntime as module  # noqa: PLC0415  (only after the switch, and when needed)
    except ImportError as error:
        raise RuntimeSupportError(
            f"ONNX Runtime can't be imported ({error}); install sealcar[ort]"
        ) from error
    if parse(module.__version__) < OLDEST:
        raise RuntimeSupportError(
            f"ONNX Runtime {module.__version__} has no EPContext callbacks; install 1.28 or later"
        )
    return module  # type: ignore[no-any-return]  # untyped


def numpy() -> Untyped:
    """Return numpy, which the runtime brings along."""
    onnxruntime()
    import numpy as np  # noqa: PLC0415  (only when needed)

    return np


def version() -> tuple[int, int]:
    """Return major and minor of the installed runtime."""
    return parse(onnxruntime().__version__)


switch_events_off()
