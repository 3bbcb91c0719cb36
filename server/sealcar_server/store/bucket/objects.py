"""A bucket's objects, as a store needs them: small ones whole, large ones in ranges.

Writes that matter have a condition: `create` fails where an object is, `replace` where it is no
longer the one that was read. Whatever fails for now is repeated (see `asking`); a conditional write
whose first answer was lost is found to be one's own by its content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.closing import Closing
from sealcar.errors import (
    AlreadyExistsError,
    ConflictError,
    NotAuthenticError,
    NotFoundError,
    StorageError,
)
from sealcar.names import shown
from sealcar_server.store.bucket.answers import ShortError, etag_of, is_unchanged, require
from sealcar_server.store.bucket.asking import (
    Asking,
    Observer,
    Unobserved,
)
from sealcar_server.store.bucket.connection import connect
from sealcar_server.store.bucket.local_bytes import copy
from sealcar_server.store.bucket.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import GetOptions, UpdateVersion

    from sealcar_server.store.bucket.connection import Place

_LISTED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Listed:
    """An object, as a list has it.

    Attributes:
        key: of it.
        size: bytes.
        etag: of its content.
        modified: when it was written, seconds since 1970 by the service's clock.
    """

    key: str
    size: int
    etag: str
    modified: float


class Objects(Closing):
    """Safe to share between threads. Keys are relative to the store's prefix.

    Whatever is asked raises StorageError if the bucket can't be reached, refuses or answers
    wrongly, and ExhaustedError if it is full.

    Args:
        place: where they are.
        observer: is told of every request.

    Raises:
        ConfigurationError: the library isn't installed, or can't make a client.
    """

    def __init__(self, place: Place, observer: Observer | None = None) -> None:
        self.place: Final = place
        self._observer = observer or Unobserved()
        self._asking = Asking(place.patience, self._observer)
        self._store = connect(place)
        self._uploads = Uploads(place, self._asking, self._observer)

    def read(self, key: str, limit: int) -> tuple[bytes, str]:
        """Return a small object's bytes and its etag.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: it is longer than `limit`.
        """
        found = self.read_changed(key, limit, "")
        if found is None:
            raise StorageError(f"{shown(key)}: the bucket says unchanged without being asked")
        return found

    def read_changed(
        self, key: str, limit: int, known: str, *, patience: float = 0
    ) -> tuple[bytes, str] | None:
        """Return a small object's bytes and its etag; None if it still is the one of this etag.

        Raises:
            NotFoundError: there is none.
            NotAuthenticError: it is longer than `limit`.
        """
        options: GetOptions = {"if_none_match": known} if known else {}

        def act() -> tuple[bytes, str] | None:
            try:
                answer = self._store.get(key, options=options)
            except Exception as error:
                if known and is_unchanged(error):
                    return None
                raise
            size = answer.meta["size"]
            if size > limit:
                raise NotAuthenticError(f"{shown(key)} is longer than {limit} bytes")
            data = bytes(answer.bytes())
            require(len(data), size)
            return data, etag_of(answer.meta)

        found = self._asking.ask("read", key, act, patience=patience)
        if found is not None:
            self._observer.moved("in", len(found[0]))
        return found

    def read_range(self, key: str, at: int, target: memoryview, *, etag: str) -> None:
        """Fill all of `target` with an object's bytes from an offset.

        Args:
            key: of the object.
            at: the offset.
            target: contiguous and writable; its content is undefined after an error.
            etag: the object must have.

        Raises:
            NotFoundError: there is no such object.
            NotAuthenticError: it is another one by now.
            StorageError: so many bytes don't come.
        """
        copy(self.range(key, at, target.nbytes, etag=etag), target)

    def range(self, key: str, at: int, size: int, *, etag: str) -> memoryview:
        """Return so many of an object's bytes from an offset on; raises as `read_range` does."""
        if not size:
            return memoryview(b"")
        options: GetOptions = {"range": (at, at + size), "if_match": etag}

        def act() -> memoryview:
            answer = self._store.get(key, options=options)
            if etag_of(answer.meta) != etag:
                raise NotAuthenticError(f"{shown(key)} was replaced meanwhile")
            if tuple(answer.range) != (at, at + size):
                require(answer.range[1] - answer.range[0], size)
                raise ShortError(f"from {answer.range[0]} on instead of {at}")
            data = memoryview(answer.bytes())
            require(len(data), size)
            return data

        found = self._asking.ask("range", key, act)
        self._observer.moved("in", size)
        return found

    def size(self, key: str) -> tuple[int, str]:
        """Return an object's size and its etag; NotFoundError if there is none."""
        meta = self._asking.ask("head", key, lambda: self._store.head(key))
        return meta["size"], etag_of(meta)

    def create(self, key: str, data: bytes) -> str:
        """Write a new object and return its etag.

        Raises:
            ConflictError: there is one already.
        """
        try:
            return self._put("create", key, data, "create")
        except AlreadyExistsError as error:
            return self._own(key, data, ConflictError(error.message))

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Write an object in place of the one that has this etag; return the new etag.

        Raises:
            ConflictError: it is another one by now, or gone.
        """
        try:
            return self._put("replace", key, data, {"e_tag": etag})
        except ConflictError as error:
            return self._own(key, data, error)

    def write(self, key: str, data: bytes) -> str:
        """Write an object, whatever is there; return its etag."""
        return self._put("write", key, data, "overwrite")

    def upload(self, key: str, fd: int) -> str:
        """Write a file's bytes as an object and return its etag.

        Args:
            key: of the object.
            fd: a descriptor to read the file by, which stays the caller's.

        Raises:
            StorageError: the file can't be read.
        """
        return self._uploads.file(key, fd)

    def copy(self, source: str, key: str) -> None:
        """Have the service write an object's bytes once more; NotFoundError if there is none."""
        size, _ = self.size(source)
        self._uploads.copy(source, key, size)

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; fine if some are gone."""
        if keys:
            self._asking.ask("remove", keys[0], lambda: self._store.delete(list(keys)))

    def listed(self, prefix: str) -> list[Listed]:
        """Return the objects whose keys begin with these steps, in the order of their keys.

        Args:
            prefix: whole steps of a key; empty: all objects of the store.

        Raises:
            NotAuthenticError: a key is none that a store has.
        """
        return self._asking.ask("list", prefix, lambda: list(self._all(prefix)))

    def close(self) -> None:
        """Nothing is kept open that doesn't end by itself; twice is fine."""

    def _all(self, prefix: str) -> Iterator[Listed]:
        count = 0
        for chunk in self._store.list(prefix or None, chunk_size=1000):
            count += len(chunk)
            if count > _LISTED:
                raise StorageError(f"there are over {_LISTED} objects below {shown(prefix)}")
            for meta in chunk:
                modified = meta["last_modified"].timestamp()
                yield Listed(meta["path"], meta["size"], meta["e_tag"] or "", modified)

    def _put(self, kind: str, key: str, data: bytes, mode: str | UpdateVersion) -> str:
        def act() -> str:
            return etag_of(self._store.put(key, data, mode=mode, use_multipart=False))  # type: ignore[arg-type]  # its literals are checked by the callers

        etag = self._asking.ask(kind, key, act)
        self._observer.moved("out", len(data))
        return etag

    def _own(self, key: str, data: bytes, error: ConflictError) -> str:
        """Return the etag of what is there if it is these very bytes, else raise the error."""
        try:
            found, etag = self.read(key, len(data))
        except (NotFoundError, NotAuthenticError):
            raise error from None
        if found != data:
            raise error
        return etag
