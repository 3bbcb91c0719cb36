"""One payload of an import while its bytes arrive: sealed at once, and hashed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError
from sealcar_server.sealing.layout import Layout
from sealcar_server.sealing.values import RecordPayload
from sealcar_server.sealing.writer import SealedWriter
from sealcar_server.service.writing import OrderedSealer

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PayloadKey
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.service.values import Announced


@dataclass(frozen=True)
class Arrived:
    """A payload that is sealed.

    Attributes:
        name, kind: as announced.
        size: of the plaintext.
        commitment: of the stream.
        sha256: of the plaintext; a secret of who has the key.
    """

    name: str
    kind: str
    size: int
    commitment: bytes
    sha256: bytes

    def recorded(self, digest: bytes) -> RecordPayload:
        """Return what the record says of it, with its keyed digest."""
        return RecordPayload(
            self.name, self.kind, self.size, commitment=self.commitment, digest=digest
        )


class Arriving:
    """Owns the descriptor of its file in staging.

    Args:
        announced: what the caller said of it.
        fd: of the new file; closed if this fails.
        key: of the payload.
        scratch: of the import.

    Raises:
        InvalidRequestError: no stream holds so many bytes.
        ExhaustedError, StorageError: it can't be written.
    """

    def __init__(self, announced: Announced, fd: int, key: PayloadKey, scratch: Scratch) -> None:
        self.announced = announced
        self._sha256 = hashlib.sha256()
        self._writer = SealedWriter(fd, key)
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

    def finish(self) -> Arrived:
        """Make it durable, and return what came.

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
        return Arrived(announced.name, announced.kind, size, commitment, self._sha256.digest())

    def close(self) -> None:
        """Close the file; twice is fine."""
        self._writer.close()


def file_size(size: int) -> int:
    """Return how many bytes a payload takes when it is sealed.

    Raises:
        InvalidRequestError: no stream holds so many bytes.
    """
    return Layout.of_plain(size).file_size
