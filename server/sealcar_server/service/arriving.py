"""One payload of an import while its bytes arrive: sealed at once, hashed for its keyed digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError
from sealcar_server.sealing.layout import Layout
from sealcar_server.sealing.values import RecordPayload
from sealcar_server.sealing.writer import SealedWriter
from sealcar_server.service.writing import OrderedSealer

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.values import Announced


class Arriving:
    """Owns the descriptor of its file in staging.

    Args:
        announced: what the caller said of it.
        fd: of the new file; closed if this fails.
        keys: of the package.
        scratch: of the import.

    Raises:
        InvalidRequestError: no stream holds so many bytes.
        ExhaustedError, StorageError: it can't be written.
    """

    def __init__(
        self, announced: Announced, fd: int, *, keys: PackageKeys, scratch: Scratch
    ) -> None:
        self.announced = announced
        self._keys = keys
        self._sha256 = hashlib.sha256()
        scope = (announced.component, announced.variant)
        self._writer = SealedWriter(fd, keys.variant(*scope, announced.name))
        self._sealer = OrderedSealer(self._writer, scratch)

    def feed(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            InvalidPackageError: more than were announced.
            ExhaustedError, StorageError: they can't be written.
        """
        if self._sealer.size + len(data) > self.announced.size:
            raise InvalidPackageError(f"more than the {self.announced.size} announced bytes came")
        self._sha256.update(data)
        self._sealer.feed(data)

    def finish(self) -> RecordPayload:
        """Make it durable, and return what the record says of it.

        Raises:
            InvalidPackageError: fewer bytes than announced came.
            ExhaustedError, StorageError: it can't be written.
        """
        announced = self.announced
        if self._sealer.size != announced.size:
            raise InvalidPackageError(
                f"{self._sealer.size} bytes came, {announced.size} were announced"
            )
        self._sealer.finish()
        size, commitment = self._writer.finish()
        self._writer.close()
        scope = (announced.component, announced.variant)
        digest = self._keys.digest(*scope, announced.name, self._sha256.digest())
        return RecordPayload(
            announced.name, announced.kind, size, commitment=commitment, digest=digest
        )

    def close(self) -> None:
        """Close the file; twice is fine."""
        self._writer.close()


def check_size(size: int) -> None:
    """Raise InvalidRequestError if no stream holds so many bytes."""
    Layout.of_plain(size)
