"""ORT's model package format, on the standard library alone.

`open` reads a package and refuses one that breaks a rule of the format with the kind of finding and
its JSON path. It stands alone on purpose: it knows nothing of sealing, of the daemon or of ONNX
Runtime.
"""

from sealcar.modelpackage.errors import (
    AssetMissingError,
    ConfinementError,
    FileAccessError,
    InvalidPathError,
    MissingError,
    PackageError,
    SchemaError,
    VersionError,
)
from sealcar.modelpackage.info import info
from sealcar.modelpackage.json_text import Json, compact
from sealcar.modelpackage.reader import Rules
from sealcar.modelpackage.reader import open_package as open  # noqa: A004  (the format's verb)
from sealcar.modelpackage.values import (
    Component,
    ExecutorInfo,
    Package,
    SchemaVersion,
    SharedAsset,
    Variant,
)

__all__ = [
    "AssetMissingError",
    "Component",
    "ConfinementError",
    "ExecutorInfo",
    "FileAccessError",
    "InvalidPathError",
    "Json",
    "MissingError",
    "Package",
    "PackageError",
    "Rules",
    "SchemaError",
    "SchemaVersion",
    "SharedAsset",
    "Variant",
    "VersionError",
    "compact",
    "info",
    "open",
]
