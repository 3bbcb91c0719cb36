"""Which of the runtime's errors mean that a provider doesn't honour the callbacks."""

from __future__ import annotations

import re
from typing import Final

from sealcar.errors import RuntimeSupportError

# 1.31 and later ask each provider, and name the one that declares no support
_REJECTED: Final = re.compile(
    r"EP '(?P<name>[^']*)' does not support the registered EPContext data (?P<way>read|write)"
)
# blobs would have gone where no file can be
_NO_FILE: Final = re.compile(r"/dev/null/|[Ff]ailed to open|[Cc]annot open|[Cc]ould not open")


def explain(error: Exception) -> RuntimeSupportError | None:
    """Return what an error of the runtime says about a provider's support, or None."""
    text = str(error)
    rejected = _REJECTED.search(text)
    if rejected:
        return RuntimeSupportError(
            f"execution provider {rejected['name']!r} doesn't honour the {rejected['way']} "
            "callback under this ONNX Runtime; register its plugin with "
            "sealcar.ort.register_ep, or compile with embed=True"
        )
    return None


def ignored(error: Exception) -> RuntimeSupportError | None:
    """Return what an error means if the write callback was set and never called, or None."""
    if not _NO_FILE.search(str(error)):
        return None
    return RuntimeSupportError(
        "the execution provider ignored the write callback and tried to write a plain file, which "
        "was prevented; register its plugin with sealcar.ort.register_ep, or compile with "
        "embed=True"
    )
