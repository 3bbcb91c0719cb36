"""What scopes and transactions mean to ONNX Runtime: its callbacks, and a variant's model."""

from __future__ import annotations

import posixpath
import threading
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import AlreadyExistsError, InvalidPackageError, NotFoundError
from sealcar.transfer.payloads import BorrowedBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.onnxscan import ModelScan
    from sealcar.transfer.reading import Scope
    from sealcar.transfer.transactions import Transaction

NAMESPACE: Final = "ort"
# what the runtime notes in a compiled model about files it needs
_DEPENDENCIES: Final = "external_dependencies"
_SOURCE: Final = "source_model"


class BlobReader:
    """A read function: blobs of one scope, each straight into the memory of whoever asks.

    A provider may ask for one blob several times, and from several threads.

    Attributes:
        served: whether a blob was asked for and brought.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._blobs = frozenset(blobs_of(scope))
        self.served = False

    def __call__(self, name: str, allocate: Callable[[int], int], /) -> None:
        """Fill the provider's memory with a blob.

        Raises:
            NotFoundError: the variant has no blob of that name.
            SealcarError: what went wrong, with scope and name.
        """
        if name not in self._blobs:
            unknown = NotFoundError("the variant has no such blob")
            raise self._scope.name.placed(unknown, "read", names.shown(name))
        with self._scope.reader(name) as reader:
            reader.read_into(allocate(reader.size), reader.size)
        self.served = True


class BlobWriter:
    """A write function: seals blobs into one transaction as they come, from any thread."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._lock = threading.Lock()
        self._names: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """The blobs that were taken."""
        with self._lock:
            return frozenset(self._names)

    def __call__(self, name: str, address: int, size: int, /) -> None:
        """Seal one blob.

        Raises:
            InvalidNameError: the name can't be a blob's.
            AlreadyExistsError: the provider wrote a blob of that name before.
            SealcarError: what went wrong, with scope and name.
        """
        self._claim(name)
        with BorrowedBuffer(address, size, self) as lent:
            self._transaction.write(name, lent, "blob")

    def _claim(self, name: str) -> None:
        scope = self._transaction.scope
        with self._lock:
            if name in self._names:
                error = AlreadyExistsError(
                    f"the execution provider wrote blob {names.shown(name)} a second time, so one "
                    "of the two would be lost; compile with embed=True"
                )
                raise scope.placed(error, "write", name)
            self._names.add(names.blob(name))


def blobs_of(scope: Scope) -> list[str]:
    """Return the names of a variant's blobs."""
    return [payload.name for payload in scope.payloads if payload.kind == "blob"]


def model_of(scope: Scope) -> str:
    """Return the name of the payload that is the variant's model.

    Raises:
        InvalidPackageError: the variant doesn't say which, or names one that it doesn't have.
    """
    models = [payload.name for payload in scope.payloads if payload.kind == "model"]
    named = settings_of(scope).get("model_file")
    if named is None and len(models) == 1:
        return models[0]
    if isinstance(named, str) and posixpath.normpath(named) in models:
        return posixpath.normpath(named)
    refused = InvalidPackageError(
        f'executor_info["{NAMESPACE}"]["model_file"] must name one of the variant\'s models: '
        f"{', '.join(models) or 'it has none'}"
    )
    raise scope.name.placed(refused, "open")


def weightless(found: ModelScan) -> bool:
    """Return whether a compiled model left its weights in the plain one."""
    return _SOURCE in found.metadata.get(_DEPENDENCIES, "")


def settings_of(scope: Scope) -> Mapping[str, object]:
    """Return what a variant says to ONNX Runtime: untrusted.

    Raises:
        InvalidPackageError: it isn't an object.
    """
    found = scope.executor_info.get(NAMESPACE, {})
    if isinstance(found, dict):
        return found
    refused = InvalidPackageError(f'executor_info["{NAMESPACE}"] must be an object')
    raise scope.name.placed(refused, "open")


def options_in(scope: Scope, key: str) -> dict[str, str]:
    """Return "session_options" or "provider_options" of a variant: untrusted.

    Raises:
        InvalidPackageError: not an object of strings.
    """
    found = settings_of(scope).get(key, {})
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    refused = InvalidPackageError(
        f'executor_info["{NAMESPACE}"]["{key}"] must be an object of strings'
    )
    raise scope.name.placed(refused, "open")
