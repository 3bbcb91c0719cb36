"""What scopes and transactions mean to ONNX Runtime: its callbacks, and a variant's model."""

from __future__ import annotations

import posixpath
import threading
from typing import TYPE_CHECKING, Final

from sealcar import names, tracing
from sealcar.errors import (
    AlreadyExistsError,
    InvalidPackageError,
    NotFoundError,
    RequestError,
)
from sealcar.ort import sources
from sealcar.ort.ahead import BlobAhead, Held, nothing_held
from sealcar.ort.copies import CopyAhead
from sealcar.transfer.payloads import BorrowedBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealcar.onnxscan import ModelScan
    from sealcar.ort.sources import Readable, Source
    from sealcar.transfer.transactions import Transaction

NAMESPACE: Final = "ort"
SESSION_OPTIONS: Final = "session_options"
PROVIDER_OPTIONS: Final = "provider_options"
# what is resolved in the package and never set: all that they lead to comes from memory
WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"
CONTEXT_FILE: Final = "ep.context_file_path"
_MODEL_FILE: Final = "model_file"
# what the runtime notes in a compiled model about files it needs
_DEPENDENCIES: Final = "external_dependencies"
_SOURCE: Final = "source_model"


class BlobReader:
    """A read function: blobs of one variant, each straight into the memory of whoever asks.

    A provider may ask for one blob several times, and from several threads.

    Args:
        source: what the blobs are read from.
        blobs: the payload of each name that may be asked for.
        hold: gives those payloads that are surely asked for several times: between `expect` and
            `settle` they lie in memory, and are decrypted once.

    Attributes:
        served: whether a blob was asked for and brought.
    """

    def __init__(
        self,
        source: Readable,
        blobs: Mapping[str, str],
        hold: Callable[[], Held] = nothing_held,
    ) -> None:
        self._source = source
        self._blobs = dict(blobs)
        self._hold, self._held = hold, nothing_held()
        self._ahead = BlobAhead(source)
        self._fill = tracing.bound(self._bring)
        self._making, self._over = False, threading.Event()
        self.served = False

    def expect(self) -> None:
        """Have the first blob on its way before it is asked for; `settle` must follow."""
        self._making = True
        # the runtime asks from threads of its own, which know of no trace
        self._fill = tracing.bound(self._bring)
        self._held = self._hold()
        first = next(iter(self._blobs.values()), "")
        self._ahead = BlobAhead(self._source, "" if first in self._held.names else first)

    def settle(self) -> None:
        """Let go what is left or held; later questions are answered as before."""
        self._making = False
        self._over.set()
        self._ahead.close()
        self._held.close()

    def __call__(self, name: str, allocate: Callable[[int], int], /) -> None:
        """Fill the provider's memory with a blob.

        Raises:
            NotFoundError: the variant has no blob of that name.
            SealcarError: what went wrong, with scope and name.
        """
        if name not in self._blobs:
            unknown = NotFoundError("the variant has no such blob")
            raise self._source.name.placed(unknown, "read", names.shown(name))
        self._fill(self._blobs[name], allocate)
        self.served = True

    def _bring(self, payload: str, allocate: Callable[[int], int]) -> None:
        with CopyAhead(allocate, self._until()) as copy:
            if not self._held.fill(payload, copy):
                self._ahead.fill(payload, copy)
            copy.hand_over()

    def _until(self) -> threading.Event:
        """Return what is set when the session is made, or another blob is asked for."""
        self._over.set()
        self._over = threading.Event()
        if not self._making:
            self._over.set()  # nobody would
        return self._over


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


def blobs_of(source: Source) -> list[str]:
    """Return the names of those blobs that are known before the model was read."""
    return [payload.name for payload in source.payloads if payload.kind == sources.BLOB]


def model_of(source: Source) -> str:
    """Return the name of the payload that is the variant's model.

    Raises:
        InvalidPackageError: the variant doesn't say which, or names one that it doesn't have.
    """
    models = [payload.name for payload in source.payloads if payload.kind == sources.MODEL]
    named = settings_of(source).get(_MODEL_FILE)
    if named is None and len(models) == 1:
        return models[0]
    if isinstance(named, str) and named:
        return _led(source, _MODEL_FILE, lambda: source.resolve(named, sources.MODEL))
    refused = InvalidPackageError(
        f'executor_info["{NAMESPACE}"]["{_MODEL_FILE}"] must name one of the variant\'s models'
        + (f": {', '.join(models)}" if models else "")
    )
    raise source.name.placed(refused, "open")


def weights_folder(source: Source, model: str) -> str:
    """Return the folder that the names of a model's external files are relative to.

    Raises:
        InvalidPackageError: the variant names one that it doesn't have.
    """
    named = options_in(source, SESSION_OPTIONS).get(WEIGHTS_FOLDER)
    if not named:
        return _folder_of(model)
    return _led(source, WEIGHTS_FOLDER, lambda: source.resolve_folder(named))


def blobs_folder(source: Source, model: str) -> str:
    """Return the folder that the names of a model's blobs are relative to.

    Raises:
        InvalidPackageError: the variant names one that it doesn't have.
    """
    named = options_in(source, SESSION_OPTIONS).get(CONTEXT_FILE)
    if not named:
        return _folder_of(model)
    return _led(source, CONTEXT_FILE, lambda: source.resolve_folder(posixpath.dirname(named)))


def _folder_of(name: str) -> str:
    folder, slash, _ = name.rpartition("/")
    return folder + slash


def _led(source: Source, key: str, lead: Callable[[], str]) -> str:
    """Follow a reference of the package; where it leads nowhere, say which one."""
    try:
        return lead()
    except RequestError as error:
        refused = InvalidPackageError(f'executor_info["{NAMESPACE}"]: {key}: {error.message}')
        raise source.name.placed(refused, "open") from error


def weightless(found: ModelScan) -> bool:
    """Return whether a compiled model left its weights in the plain one."""
    return _SOURCE in found.metadata.get(_DEPENDENCIES, "")


def settings_of(source: Source) -> Mapping[str, object]:
    """Return what a variant says to ONNX Runtime: untrusted.

    Raises:
        InvalidPackageError: it isn't an object.
    """
    found = source.executor_info.get(NAMESPACE, {})
    if isinstance(found, dict):
        return found
    refused = InvalidPackageError(f'executor_info["{NAMESPACE}"] must be an object')
    raise source.name.placed(refused, "open")


def options_in(source: Source, key: str) -> dict[str, str]:
    """Return "session_options" or "provider_options" of a variant: untrusted.

    Raises:
        InvalidPackageError: not an object of strings.
    """
    found = settings_of(source).get(key, {})
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    refused = InvalidPackageError(
        f'executor_info["{NAMESPACE}"]["{key}"] must be an object of strings'
    )
    raise source.name.placed(refused, "open")
