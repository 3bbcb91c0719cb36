"""Plain packages: variants that are read from the disk as sealed ones are from the daemon."""

from sealcar.ort.plain.directories import DirectoryScope
from sealcar.ort.plain.packages import find_variant, open_package

__all__ = ["DirectoryScope", "find_variant", "open_package"]
