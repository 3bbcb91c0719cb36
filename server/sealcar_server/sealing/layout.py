"""Where the segments of a stream lie: arithmetic over sizes, which refuses impossible ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

from sealcar.errors import InvalidRequestError, NotAuthenticError, TruncatedError

TAG: Final = 16
PREFIX: Final = 7
MAX_SEGMENTS: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Params:
    """The public parameters of a streaming key; a stream doesn't hold them.

    Attributes:
        segment: bytes of one full segment, tag included.
        derived_key: bytes of the AES key of one stream, and of its salt.
        digest: hash of the HKDF that derives it.
    """

    segment: int = 1 << 20
    derived_key: int = 32
    digest: str = "SHA256"

    @property
    def header(self) -> int:
        """Bytes before the first segment: its own size, the salt, the nonce prefix."""
        return 1 + self.derived_key + PREFIX

    @property
    def piece(self) -> int:
        """Plaintext bytes of a full segment."""
        return self.segment - TAG

    @property
    def first_piece(self) -> int:
        """Plaintext bytes of a full first segment, which shares its place with the header."""
        return self.segment - self.header - TAG


AES256_GCM_HKDF_1MB: Final = Params()
SEGMENT: Final = AES256_GCM_HKDF_1MB.segment
HEADER: Final = AES256_GCM_HKDF_1MB.header
PIECE: Final = AES256_GCM_HKDF_1MB.piece
FIRST_PIECE: Final = AES256_GCM_HKDF_1MB.first_piece


class Span(NamedTuple):
    """One segment: its place in the file and in the plaintext."""

    at: int
    size: int
    plain_at: int
    plain_size: int


@dataclass(frozen=True)
class Layout:
    """All segments of one stream. Made by `of_file` or `of_plain`."""

    plain_size: int
    params: Params

    @classmethod
    def of_plain(cls, size: int, params: Params = AES256_GCM_HKDF_1MB) -> Self:
        """Return the layout of a plaintext of this size.

        Raises:
            InvalidRequestError: no stream can hold it.
        """
        made = cls(size, params)
        if size < 0 or made.count > MAX_SEGMENTS:
            raise InvalidRequestError(f"no stream holds {size} bytes")
        return made

    @classmethod
    def of_file(cls, size: int, params: Params = AES256_GCM_HKDF_1MB) -> Self:
        """Return the layout of a sealed file of this size.

        Raises:
            TruncatedError: too short for a header and one tag.
            NotAuthenticError: a size that no writer makes: a last segment without a byte.
        """
        least = params.header + TAG
        if size < least:
            raise TruncatedError(f"{size} bytes are no sealed payload: the smallest has {least}")
        count = -(-size // params.segment)
        made = cls(size - params.header - count * TAG, params)
        if count > MAX_SEGMENTS or made.count != count or made.plain_size < 0:
            raise NotAuthenticError(f"no writer makes a sealed payload of {size} bytes")
        return made

    @cached_property
    def count(self) -> int:
        """Number of segments."""
        return max(1, -(-(self.plain_size + self.params.header) // self.params.piece))

    @cached_property
    def _measures(self) -> tuple[int, int, int, int]:
        params = self.params
        return params.segment, params.piece, params.header, self.count - 1

    @property
    def file_size(self) -> int:
        """Bytes of the sealed file."""
        return self.params.header + self.plain_size + self.count * TAG

    def span(self, index: int) -> Span:
        """Return the place of one segment.

        Raises:
            InvalidRequestError: there is no such segment.
        """
        segment, piece, header, last = self._measures
        if not 0 <= index <= last:
            raise InvalidRequestError(f"no segment {index} among {last + 1}")
        at = index * segment if index else header
        plain_at = index * piece - header if index else 0
        size = (self.file_size if index == last else (index + 1) * segment) - at
        return Span(at, size, plain_at, size - TAG)

    def segment_of(self, offset: int) -> int:
        """Return the index of the segment with this plaintext byte; the end is in the last."""
        return min((offset + self.params.header) // self.params.piece, self.count - 1)
