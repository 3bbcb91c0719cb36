"""Reads every byte of a generation and checks it against the seal record."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.failing import during
from sealcar_server.service.opened import every_payload
from sealcar_server.service.serving import keyed_digest, open_reader
from sealcar_server.service.values import Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.service.opening import Opener


def verify(
    opener: Opener, opened: OpenedPackage, progress: Callable[[int, int, str], None]
) -> Verified:
    """Check all payloads, in the record's order.

    Raises:
        DamagedError: of the first payload that isn't what it should be, or of what is missing.
        KeyRefusedError, KeyUnavailableError, StorageError: it can't be checked.
    """
    total = sum(held.payload.size for held in every_payload(opened))
    scratch = Scratch()
    done = count = 0
    place = opened.place
    known: dict[str, str | int] = {
        "package": place.name,
        "version": place.version,
        "generation": place.number,
    }
    try:
        for item in opened.record.variants:
            scope = {"component": item.component, "variant": item.variant}
            with during("verify", **known, **scope):
                opened.variant(**scope)
        for held in every_payload(opened):
            with during("verify", **known, **held.place):
                for size in _Check(opener, opened, held, scratch).run():
                    progress(done + size, total, held.name)
            done += held.payload.size
            count += 1
    finally:
        scratch.wipe()
    return Verified(place.number, count, done)


class _Check:
    """One payload."""

    def __init__(self, opener: Opener, opened: OpenedPackage, held: Held, scratch: Scratch) -> None:
        self._opener, self._opened, self._held = opener, opened, held
        self._scratch = scratch
        # computed only where the record has one to compare with
        self._sha256 = hashlib.sha256() if held.payload.digest else None

    def run(self) -> Iterator[int]:
        """Read it all, telling how far; DamagedError if it isn't what it should be."""
        with open_reader(self._opener, self._opened, self._held, self._scratch) as reader:
            for index in range(reader.layout.count):
                yield self._read(reader, index)
        if self._sha256 is not None:
            self._check_digest(self._sha256.digest())

    def _read(self, reader: SealedReader, index: int) -> int:
        span = reader.read_segment(index, self._scratch)
        if self._sha256 is not None:
            self._sha256.update(self._scratch.plain[: span.plain_size])
        return span.plain_at + span.plain_size

    def _check_digest(self, sha256: bytes) -> None:
        with self._opener.keys(self._opened) as keys:
            digest = keyed_digest(keys, self._held, sha256)
        if not hmac.compare_digest(digest, self._held.payload.digest):
            raise NotAuthenticError("the plaintext isn't the one that was imported")
