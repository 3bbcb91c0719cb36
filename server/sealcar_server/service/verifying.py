"""Reads every byte of a generation and checks it against the seal record."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Protocol

from sealcar.errors import InvalidRequestError, NotAuthenticError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.failing import during, generation_place
from sealcar_server.service.opened import every_payload
from sealcar_server.service.resuming import Tokens
from sealcar_server.service.serving import keyed_digest, open_reader
from sealcar_server.service.values import Verified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.service.opening import Opener
    from sealcar_server.service.store_key import StoreKey


class Progress(Protocol):
    """Is told about once a mebibyte how far a check is; what it raises ends the work."""

    def __call__(self, done: int, total: int, payload: str, token: str, /) -> None:
        """Take bytes done, bytes in all, the payload, and the token with which to go on."""


class Verifier:
    """Safe to share between threads.

    Args:
        opener: opens payloads.
        store_key: authenticates how far a check has come.
    """

    def __init__(self, opener: Opener, store_key: StoreKey) -> None:
        self._opener, self._store_key = opener, store_key

    def verify(self, opened: OpenedPackage, progress: Progress, token: str = "") -> Verified:
        """Check all payloads in the record's order, or those that a token leaves.

        Raises:
            DamagedError: of the first payload that isn't what it should be, or of what is missing.
            InvalidRequestError, WrongStateError: the token isn't of this generation.
            KeyRefusedError, KeyUnavailableError, StorageError: it can't be checked.
        """
        # what lies there is checked, not what was remembered of it
        opened = self._opener.again(opened)
        place = opened.place
        known = generation_place(place)
        everything = list(every_payload(opened))
        with during("verify", **known):
            tokens = Tokens(self._store_key, opened)
            first = tokens.payloads(token) if token else 0
            if first > len(everything):
                raise InvalidRequestError("the token is of more payloads than there are")
        for item in opened.record.variants:
            scope = {"component": item.component, "variant": item.variant}
            with during("verify", **known, **scope):
                opened.variant(**scope)
        total = sum(held.payload.size for held in everything)
        done = sum(held.payload.size for held in everything[:first])
        token = token or tokens.made(0)
        scratch = Scratch()
        try:
            for at, held in enumerate(everything[first:], first):
                with during("verify", **known, **held.place):
                    for size in _Check(self._opener, opened, held, scratch).run():
                        progress(done + size, total, held.name, token)
                done += held.payload.size
                token = tokens.made(at + 1)
                progress(done, total, held.name, token)
        finally:
            scratch.wipe()
        return Verified(place.number, len(everything), done)


class _Check:
    """One payload."""

    def __init__(self, opener: Opener, opened: OpenedPackage, held: Held, scratch: Scratch) -> None:
        self._opener, self._opened, self._held = opener, opened, held
        self._scratch = scratch
        # computed only where the record has one to compare with
        self._sha256 = hashlib.sha256() if held.payload.digest else None

    def run(self) -> Iterator[int]:
        """Read it all, telling how far; DamagedError if it isn't what it should be."""
        with open_reader(
            self._opener, self._opened, self._held, self._scratch, at_once=True
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
        with self._opener.keys(self._opened) as keys:
            digest = keyed_digest(keys, self._held, sha256)
        if not hmac.compare_digest(digest, self._held.payload.digest):
            raise NotAuthenticError("the plaintext isn't the one that was imported")
