"""Reads every byte of a generation and checks it against the seal record."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.failing import during
from sealcar_server.service.serving import open_reader
from sealcar_server.service.values import Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.values import RecordPayload, RecordVariant
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.opening import Opener


def verify(
    opener: Opener, opened: OpenedPackage, progress: Callable[[int, int, str], None]
) -> Verified:
    """Check all payloads, in the record's order.

    Raises:
        DamagedError: of the first payload that isn't what it should be, or of what is missing.
        KeyRefusedError, KeyUnavailableError, StorageError: it can't be checked.
    """
    variants = opened.record.variants
    total = sum(payload.size for variant in variants for payload in variant.payloads)
    scratch = Scratch()
    done = count = 0
    place = opened.place
    known: dict[str, str | int] = {
        "package": place.name,
        "version": place.version,
        "generation": place.number,
    }
    try:
        for item in variants:
            known |= {"component": item.component, "variant": item.variant}
            with during("verify", **known):
                variant = opened.variant(item.component, item.variant)
            for payload in variant.payloads:
                with during("verify", payload=payload.name, **known):
                    for size in _Check(opener, opened, variant, payload, scratch).run():
                        progress(done + size, total, payload.name)
                done += payload.size
                count += 1
    finally:
        scratch.wipe()
    return Verified(place.number, count, done)


class _Check:
    """One payload."""

    def __init__(
        self,
        opener: Opener,
        opened: OpenedPackage,
        variant: RecordVariant,
        payload: RecordPayload,
        scratch: Scratch,
    ) -> None:
        self._opener, self._opened, self._variant = opener, opened, variant
        self._payload, self._scratch = payload, scratch
        # computed only where the record has one to compare with
        self._sha256 = hashlib.sha256() if payload.digest else None

    def run(self) -> Iterator[int]:
        """Read it all, telling how far; DamagedError if it isn't what it should be."""
        with open_reader(
            self._opener, self._opened, self._variant, self._payload, self._scratch
        ) as reader:
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
        variant, payload = self._variant, self._payload
        with self._opener.keys(self._opened) as keys:
            digest = keys.digest(variant.component, variant.variant, payload.name, sha256)
        if not hmac.compare_digest(digest, payload.digest):
            raise NotAuthenticError("the plaintext isn't the one that was imported")
