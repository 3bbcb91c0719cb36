"""ORT's model package format, on the standard library alone.

`open` reads a package and refuses one that breaks a rule of the format with the kind of finding and
its JSON path. It stands alone on purpose: it knows nothing of sealing, of the daemon or of ONNX
Runtime.
"""

from sealcar.modelpackage.dense import WriteMode
from sealcar.modelpackage.editor import Editor
from sealcar.modelpackage.errors import (
    AssetMismatchError,
    AssetMissingError,
    ConfinementError,
    FileAccessError,
    InvalidPathError,
    LimitError,
    MissingError,
    PackageError,
    SchemaError,
    StateError,
    VersionError,
)
from sealcar.modelpackage.hashing import Progress, hash_directory
from sealcar.modelpackage.info import info
from sealcar.modelpackage.json_text import Json, compact, document
from sealcar.modelpackage.opening import create, edit, new
from sealcar.modelpackage.opening import prune_package as prune
from sealcar.modelpackage.package import Package
from sealcar.modelpackage.reader import open_package as open  # noqa: A004  (the format's verb)
from sealcar.modelpackage.rules import Limits, Rules
from sealcar.modelpackage.validation import Check, Finding, Report, validate
from sealcar.modelpackage.values import (
    Component,
    ExecutorInfo,
    SchemaVersion,
    SharedAsset,
    Variant,
)

__all__ = [
    "AssetMismatchError",
    "AssetMissingError",
    "Check",
    "Component",
    "ConfinementError",
    "Editor",
    "ExecutorInfo",
    "FileAccessError",
    "Finding",
    "InvalidPathError",
    "Json",
    "LimitError",
    "Limits",
    "MissingError",
    "Package",
    "PackageError",
    "Progress",
    "Report",
    "Rules",
    "SchemaError",
    "SchemaVersion",
    "SharedAsset",
    "StateError",
    "Variant",
    "VersionError",
    "WriteMode",
    "compact",
    "create",
    "document",
    "edit",
    "hash_directory",
    "info",
    "new",
    "open",
    "prune",
    "validate",
]
