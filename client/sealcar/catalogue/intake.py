"""The messages of an export, one after the other. Nothing that a daemon says is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.catalogue import values
from sealcar.errors import (
    IncompatibleError,
    InvalidNameError,
    NotAuthenticError,
    TruncatedError,
)
from sealcar.exports.paths import MANIFEST, check_path
from sealcar.names import shown

if TYPE_CHECKING:
    from sealcar.exports.places import Target
    from sealcar.v1 import package_store_pb2 as pb

_MOST_MANIFEST: Final = 64 << 20


@dataclass(frozen=True)
class Exported:
    """What an export became."""

    name: str
    version: str
    generation: int
    files: int
    size: int


class Intake:
    """The messages of one export, in order.

    Args:
        target: where the files go.
        progress: is told how far it is.
        asked: what is exported.

    Attributes:
        manifest: its first bytes, all of them in any package that a daemon takes in.
    """

    def __init__(
        self, target: Target, progress: values.Watcher | None, asked: pb.ExportRequest
    ) -> None:
        self._target, self._progress, self._asked = target, progress, asked
        self._begin: pb.ExportBegin | None = None
        self._path = ""
        self.manifest = bytearray()
        self._manifest_came = False
        self._stems: list[str] = []  # files that the path begins with
        self._left = 0  # bytes of the file that was begun last
        self._files = self._size = self._done = 0

    def take(self, answer: pb.ExportResponse) -> Exported | None:
        """Take one message; the last one gives what the export was.

        Raises:
            NotAuthenticError: a path that is none of a package, or more than was announced.
            TruncatedError: less than was announced.
            IncompatibleError: a message that doesn't belong there.
            AlreadyExistsError, ExhaustedError, StorageError: it can't be written.
        """
        step = answer.WhichOneof("step")
        if step == "progress":
            self._tell(answer.progress.done)
            return None
        if (step == "begin") is not (self._begin is None):
            raise IncompatibleError("the daemon sent an export's messages in a wrong order")
        if step == "begin":
            self._begin = self._checked(answer.begin)
        elif step == "file":
            self._file(answer.file)
        elif step == "data":
            self._data(answer.data)
        elif step == "finish":
            return self._finish(answer.finish)
        else:
            raise IncompatibleError("the daemon sent a message that this release doesn't know")
        return None

    def _checked(self, begin: pb.ExportBegin) -> pb.ExportBegin:
        asked, found = self._asked, begin.package
        if (
            asked.package.name != found.name
            or asked.package.version not in ("", found.version)
            or asked.generation not in (0, begin.generation)
        ):
            name = f"{found.name}@{found.version}, generation {begin.generation}"
            raise NotAuthenticError(f"the daemon sent another package: {shown(name)}")
        return begin

    def _file(self, file: pb.ExportFile) -> None:
        self._complete()
        try:
            check_path(file.path)
        except InvalidNameError as error:
            raise NotAuthenticError(f"the daemon sent a bad path: {error.message}") from error
        # so no path comes twice
        if file.path.encode() <= self._path.encode():
            raise NotAuthenticError(f"the daemon sent {shown(file.path)} out of order")
        self._check_stems(file.path)
        self._manifest_came |= file.path == MANIFEST
        self._path, self._left = file.path, file.size
        self._files += 1
        self._size += file.size
        if self._files > self._announced.files or self._size > self._announced.size:
            raise NotAuthenticError("the daemon sent more than it announced")
        self._target.file(file.path, file.size)

    def _check_stems(self, path: str) -> None:
        # in this order, what doesn't begin with a file's path now never will again
        while self._stems and not path.startswith(self._stems[-1]):
            self._stems.pop()
        if any(path.startswith(f"{stem}/") for stem in self._stems):
            raise NotAuthenticError(f"the daemon sent {shown(path)}, below another file")
        self._stems.append(path)

    def _data(self, data: bytes) -> None:
        if len(data) > self._left:
            raise NotAuthenticError("the daemon sent more than it announced")
        self._left -= len(data)
        self._done += len(data)
        self._target.write(data)
        if self._path == MANIFEST:
            self.manifest += data[: _MOST_MANIFEST - len(self.manifest)]
        self._tell(self._done)

    def _finish(self, finish: pb.ExportFinish) -> Exported:
        self._complete()
        announced = self._announced
        if (self._files, self._size) != (announced.files, announced.size):
            raise TruncatedError(f"{self._files} of {announced.files} announced files came")
        if finish.files != self._files or not self._manifest_came:
            raise TruncatedError("the daemon sent an export that isn't whole")
        package = announced.package
        return Exported(
            package.name, package.version, announced.generation, self._files, self._size
        )

    def _complete(self) -> None:
        if self._left:
            raise TruncatedError(f"{shown(self._path)} ended {self._left} bytes too early")

    @property
    def _announced(self) -> pb.ExportBegin:
        if self._begin is None:
            raise IncompatibleError("the daemon sent an export's messages in a wrong order")
        return self._begin

    def _tell(self, done: int) -> None:
        if self._progress is not None:
            total = self._begin.size if self._begin else 0
            self._progress(values.Progress(done, total, self._path))
