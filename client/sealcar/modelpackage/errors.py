"""What can be wrong with a model package, one class a kind.

A package on its own (not one in the daemon's store) is judged by this hierarchy. The kinds are
those of the native library, so that a caller who knows that one finds the same distinctions here.
"""

from __future__ import annotations


class PackageError(Exception):
    """Base of all errors of this part.

    Args:
        message: one sentence that names the rule.
        where: JSON path of the offending value, such as `components.main.variants`; a file for
            damage of all of it.
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __str__(self) -> str:
        """Place and message, in one line."""
        return f"{self.where}: {self.message}" if self.where else self.message


class FileAccessError(PackageError):
    """A file or directory of the package can't be read."""


class SchemaError(PackageError):
    """Not JSON, or JSON of another shape than the format has."""


class LimitError(SchemaError):
    """Sound as far as it was read, but larger than the limits that the reader set."""


class VersionError(PackageError):
    """Written for a major version of the format that isn't supported."""


class ConfinementError(PackageError):
    """A path leads, or could lead, out of the package."""


class InvalidPathError(PackageError):
    """A path that can't be one, such as an empty one."""


class MissingError(PackageError):
    """A path, component or variant that doesn't exist."""


class AssetMissingError(MissingError):
    """An asset URI that the package doesn't declare."""


class StateError(PackageError):
    """Nothing is wrong with the request, but it can't be done with the package as it is now."""


class AssetMismatchError(StateError):
    """The content of a shared asset isn't what its URI says."""
