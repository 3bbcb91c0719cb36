"""The cipher of one stream: AES-GCM with a nonce per segment, under a key derived for the stream.

stream key = HKDF(key value, salt = the header's salt, info = associated data)
nonce      = the header's prefix (7), segment index (4, big-endian), 1 if it is the last else 0
"""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sealcar.errors import NotAuthenticError
from sealcar_server.sealing.layout import PREFIX, Params

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PayloadKey


def fresh_header(params: Params) -> bytes:
    """Return the header of a new stream: salt and nonce prefix are random."""
    return bytes([params.header]) + os.urandom(params.derived_key + PREFIX)


class StreamCipher:
    """Seals and opens the segments of one stream, from any thread.

    Args:
        key: of the payload.
        header: the stream's first bytes.

    Raises:
        NotAuthenticError: the header isn't one of such a stream.
    """

    def __init__(self, key: PayloadKey, header: bytes) -> None:
        params = key.params
        if len(header) != params.header or header[0] != params.header:
            raise NotAuthenticError("the sealed file doesn't begin with the header of a stream")
        salt, self._prefix = header[1:-PREFIX], header[-PREFIX:]
        algorithm = getattr(hashes, params.digest)()
        hkdf = HKDF(algorithm, params.derived_key, salt=salt, info=key.associated_data)
        self._key = hkdf.derive(key.key)
        self._local = threading.local()

    def seal(self, index: int, plain: memoryview, sealed: memoryview, *, last: bool) -> None:
        """Encrypt one segment; `sealed` has 16 bytes more than `plain`."""
        self._aead().encrypt_into(self._nonce(index, last=last), plain, None, sealed)

    def open(self, index: int, sealed: memoryview, plain: memoryview, *, last: bool) -> None:
        """Decrypt one segment; `plain` may be the beginning of `sealed`.

        Raises:
            cryptography.exceptions.InvalidTag: it isn't authentic, and `plain` now holds forged
                bytes: the caller wipes them.
        """
        self._aead().decrypt_into(self._nonce(index, last=last), sealed, None, plain)

    def _nonce(self, index: int, *, last: bool) -> bytes:
        return self._prefix + struct.pack(">I?", index, last)

    def _aead(self) -> AESGCM:
        # threads that share one object now and then run at half speed
        aead: AESGCM | None = getattr(self._local, "aead", None)
        if aead is None:
            aead = self._local.aead = AESGCM(self._key)
        return aead
