"""What a repository of a registry holds, and how blobs come and go: in pieces, never whole."""

from __future__ import annotations

import hashlib
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from sealcar.closing import Closing
from sealcar.errors import (
    NotAuthenticError,
    SealcarError,
    TimedOutError,
    TruncatedError,
    UnavailableError,
)
from sealcar.oci import answers
from sealcar.oci.artifacts import MANIFEST_TYPE, MOST, Blob
from sealcar.oci.bodies import Once
from sealcar.oci.line import Line
from sealcar.oci.references import is_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests

    from sealcar.oci.access import Access
    from sealcar.oci.references import Reference

_LEAST: Final = 256 << 10  # that comes in the time for which a registry may be silent
_TRIES: Final = 5  # of a blob that broke off, without as much between
_WAIT: Final = 0.2
_OK: Final = 200
_CREATED: Final = 201
_ACCEPTED: Final = 202
_PARTIAL: Final = 206
_MISSING: Final = 404
_BINARY: Final = {"Content-Type": "application/octet-stream"}


class Repository(Closing):
    """One repository.

    Args:
        reference: names it.
        access: how its registry is reached, and as whom.

    Raises:
        ConfigurationError: the certificate authorities, or the credentials, can't be read.
        All methods raise SealcarErrors: UnavailableError, TimedOutError, DeniedError, NotFoundError
        and StorageError as the registry answers.
    """

    def __init__(self, reference: Reference, access: Access) -> None:
        self._reference, self._patience = reference, access.timeout
        self._line = Line(reference, access)

    def close(self) -> None:
        """Close its connections."""
        self._line.close()

    def manifest(self) -> tuple[bytes, str]:
        """Return the artifact's manifest and its digest, by which it was asked for or now is known.

        Raises:
            NotAuthenticError: it has another digest than was asked for, or than the registry says.
        """
        url = self._line.manifest_url(self._reference.manifest)
        response = self._line.do_request(url, headers={"Accept": MANIFEST_TYPE})
        told = response.headers.get("Docker-Content-Digest", "")
        data = self._expect(response, f"{self._reference}", _OK, most=MOST)
        found = Blob.of(data).digest
        wanted = self._reference.digest or (told if is_digest(told) else found)
        if found != wanted:
            raise NotAuthenticError(f"{self._reference}: the registry sent another manifest")
        return data, found

    def put_manifest(self, data: bytes) -> None:
        """Put an artifact's manifest under the reference's tag.

        Raises:
            NotAuthenticError: the registry says that it got another one.
        """
        url = self._line.manifest_url(self._reference.manifest)
        response = self._line.do_request(
            url, "PUT", data=data, headers={"Content-Type": MANIFEST_TYPE}
        )
        told = response.headers.get("Docker-Content-Digest", "")
        self._expect(response, f"{self._reference} can't be written", _CREATED)
        if is_digest(told) and told != Blob.of(data).digest:
            raise NotAuthenticError(f"{self._reference}: the registry took another manifest")

    def has(self, blob: Blob) -> bool:
        """Tell whether a blob is there already."""
        response = self._line.do_request(self._url(blob), "HEAD")
        self._line.small(response, answers.MOST)
        if response.status_code not in (_OK, _MISSING):
            raise answers.failed(self._reference.place, response, b"")
        return response.status_code == _OK

    def put(self, blob: Blob, pieces: Iterator[bytes], *, other: str = "") -> bool:
        """Put a blob there; False: it came from another repository, and no piece was taken.

        Args:
            blob: what the pieces add up to.
            pieces: its bytes, taken while they are sent.
            other: a repository of the same registry that may have it.
        """
        mount = f"?mount={blob.digest}&from={quote(other, safe='')}" if other else ""
        url = self._line.uploads_url() + mount
        begun = self._line.do_request(url, "POST", data=b"", headers=_BINARY)
        what = f"{self._reference.place} takes no blob"
        if other and begun.status_code == _CREATED:
            self._line.small(begun, answers.MOST)
            return False
        self._expect(begun, what, _ACCEPTED)
        place = answers.led(url, begun)
        with self._given_up(place):
            join = "&" if "?" in place else "?"
            response = self._line.do_request(
                f"{place}{join}digest={quote(blob.digest, safe='')}",
                "PUT",
                data=Once(blob.size, pieces),
                headers={**_BINARY, "Content-Length": str(blob.size)},
            )
            self._expect(response, what, _CREATED)
        return True

    def get(self, blob: Blob) -> Iterator[bytes]:
        """Yield a blob, in pieces; one that breaks off goes on where it was.

        Raises:
            NotAuthenticError: it isn't what its digest says. TruncatedError: nor its size.
        """
        digest, at, tried, enough = hashlib.sha256(), 0, 0, _LEAST
        while True:
            try:
                for piece in self._from(blob, at):
                    digest.update(piece)
                    at += len(piece)
                    yield piece
                break
            except UnavailableError as error:
                tried, enough = (1, at + _LEAST) if at >= enough else (tried + 1, enough)
                if error.retry_after is None or tried >= _TRIES:
                    raise
                time.sleep(_WAIT * 2**tried)
        if at != blob.size:
            raise TruncatedError(f"{blob.digest}: {at} of {blob.size} bytes came")
        if f"sha256:{digest.hexdigest()}" != blob.digest:
            raise NotAuthenticError(f"{blob.digest}: the registry sent something else")

    def _from(self, blob: Blob, at: int) -> Iterator[bytes]:
        """Yield a blob from a place on; never more than its size."""
        if at == blob.size:
            return
        headers = {"Range": f"bytes={at}-"} if at else {}
        response = self._line.do_request(self._url(blob), headers=headers)
        with response:
            if response.status_code not in ((_OK, _PARTIAL) if at else (_OK,)):
                raise answers.failed(f"{blob.digest}", response, self._told(response))
            # who knows no ranges sends it all again
            skipped = at if response.status_code == _OK else 0
            left = blob.size - at
            for piece in self._pieces(response):
                rest = piece[skipped:] if skipped else piece
                skipped -= len(piece) - len(rest)
                left -= len(rest)
                if left < 0:
                    raise TruncatedError(f"{blob.digest}: more than {blob.size} bytes came")
                if rest:
                    yield rest

    def _pieces(self, response: requests.Response) -> Iterator[bytes]:
        """Yield what comes, gathered, and never slower than all links are."""
        gathered, end = bytearray(), time.monotonic() + self._patience
        try:
            for piece in self._line.pieces(response):
                gathered += piece
                if len(gathered) >= _LEAST:
                    yield bytes(gathered)
                    gathered, end = bytearray(), time.monotonic() + self._patience
                elif time.monotonic() > end:
                    raise TimedOutError(f"{self._reference.host} sends too slowly")
        except UnavailableError:
            # so what comes next begins where this ended
            yield bytes(gathered)
            raise
        yield bytes(gathered)

    @contextmanager
    def _given_up(self, place: str) -> Iterator[None]:
        """Tell the registry if an upload that was begun won't end."""
        try:
            yield
        except TimedOutError:
            raise  # it wouldn't hear that either
        except Exception:  # whatever ended it goes on to the caller
            with suppress(SealcarError):
                self._line.do_request(place, "DELETE", data=b"").close()
            raise

    def _url(self, blob: Blob) -> str:
        return self._line.blob_url(blob.digest)

    def _told(self, response: requests.Response) -> bytes:
        with suppress(SealcarError):
            return self._line.small(response, answers.MOST)
        return b""

    def _expect(
        self, response: requests.Response, what: str, status: int, *, most: int = answers.MOST
    ) -> bytes:
        """Return what came with the status that was hoped for.

        Raises:
            SealcarError: it is another one.
        """
        if response.status_code == status:
            return self._line.small(response, most)
        raise answers.failed(what, response, self._told(response))
