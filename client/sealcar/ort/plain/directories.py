"""A plain package's variant: each file is found once, and from then on read by its descriptor."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sealcar.errors import NotFoundError, SealcarError
from sealcar.names import harmless
from sealcar.ort.plain.files import FileReader
from sealcar.ort.plain.packages import as_ours
from sealcar.ort.plain.walking import Folder, check_relative, open_real

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.modelpackage import Package, Variant
    from sealcar.transfer.payloads import PayloadRef

_Error = TypeVar("_Error", bound=SealcarError)
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class DirectoryName:
    """What a file's name is relative to."""

    package: str
    component: str
    variant: str

    def placed(self, error: _Error, phase: str, payload: str = "") -> _Error:
        """Return the error with what it lacks of its place filled in."""
        return error.at(
            phase=phase,
            package=harmless(self.package),
            component=harmless(self.component),
            variant=harmless(self.variant),
            payload=harmless(payload),
        )


class DirectoryScope:
    """One variant of an opened package, for as long as the package's directory is as it is.

    References in `executor_info` lead where the package's layout allows; names in a model lead to
    files in the folder of the model (or the one that the variant names for them), never out of it.
    What was found is kept open, so a file that is replaced afterwards isn't read.

    Args:
        package: as it was opened.
        component: name of the component.
        variant: of that component.
    """

    def __init__(self, package: Package, component: str, variant: Variant) -> None:
        self._package = package
        self._base = str(variant.directory or package.root)
        self._lock = threading.Lock()
        self._files: dict[str, int] = {}
        self._folders: dict[str, Folder] = {}
        self._opened = ExitStack()
        self._closing = weakref.finalize(self, self._opened.close)
        self.name = DirectoryName(str(package.root), component, variant.name)
        self.ep = variant.ep or ""
        self.compatibility = variant.compatibility or ""
        self.executor_info: Mapping[str, object] = {
            namespace: info.value for namespace, info in variant.executor_info.items()
        }
        # a directory doesn't say what its files are; the model does
        self.payloads: tuple[PayloadRef, ...] = ()

    def resolve(self, reference: str, _kind: str, /) -> str:
        """Find and open the file that a reference of `executor_info` leads to.

        Raises:
            RequestError: it leads nowhere, to what is no regular file, or where it may not.
            ResourceError: it can't be opened.
        """
        self._open(reference, lambda: open_real(self._real(reference)))
        return reference

    def resolve_folder(self, reference: str, /) -> str:
        """Find and open the folder that such a reference leads to; "": the variant's own.

        Raises:
            RequestError: it leads nowhere, to what is no directory, or where it may not.
            ResourceError: it can't be opened.
        """
        folder = reference.rstrip("/") + "/" if reference else ""
        self._folder(folder)
        return folder

    def beside(self, folder: str, name: str, _kind: str, /) -> str:
        """Find and open the file that a model names.

        Raises:
            InvalidPackageError: the name leads out of the folder, or to what is no regular file.
            NotFoundError: there is no such file.
            ResourceError: it can't be opened.
        """
        check_relative(name)
        self._open(folder + name, lambda: self._folder(folder).open(name))
        return folder + name

    def reader(self, name: str, /) -> FileReader:
        """Return a reader of a file that was found.

        Raises:
            NotFoundError: it wasn't asked for by `resolve` or `beside`.
        """
        descriptor = self._files.get(name)
        if descriptor is None:
            raise self.name.placed(NotFoundError("no such file was found before"), "read", name)
        return FileReader(descriptor)

    reader_ahead = reader  # nobody waits for a file

    def read(self, name: str, /) -> bytes:
        """Return a file's content.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        return self._placed(name, lambda: self.reader(name).read())

    def view(self, name: str, /) -> memoryview:
        """Return a file's content in read-only memory, which lives as long as the view.

        Raises:
            SealcarError: what went wrong, with scope and name.
        """
        return self._placed(name, lambda: self.reader(name).view())

    def close(self) -> None:
        """Close what was opened; without it, the end of this object does."""
        self._closing()

    def _open(self, name: str, opening: Callable[[], int]) -> None:
        with self._lock:
            if name not in self._files:
                self._files[name] = opening()
                self._opened.callback(os.close, self._files[name])

    def _folder(self, folder: str) -> Folder:
        if folder not in self._folders:
            found = Folder(self._real(folder) if folder else self._base)
            self._folders[folder] = found
            self._opened.callback(found.close)
        return self._folders[folder]

    def _real(self, reference: str) -> str:
        """Return the real path that a reference leads to, by the package's own rules."""
        with as_ours():
            return self._package.resolve(reference, base=self._base, must_exist=True).rstrip("/")

    def _placed(self, name: str, read: Callable[[], _Made]) -> _Made:
        try:
            return read()
        except SealcarError as error:
            raise self.name.placed(error, "read", name) from error.__cause__
