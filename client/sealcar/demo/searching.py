"""Looks for plaintext where only ciphertext should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

RUN: Final = 64
_BLOCK: Final = 32
_WORD: Final = 8


class Search:
    """A search for any 64 bytes in a row, at any offset, of some plaintexts.

    A run of 64 bytes holds one whole 32-byte block that is aligned in its plaintext. So it is
    enough to know the first words of all such blocks, to look for these at every offset of a file,
    and to compare around each find.

    Args:
        plaintexts: what must not be there.
        public: texts that are meant to be there, though a plaintext repeats them.
    """

    def __init__(self, plaintexts: Sequence[bytes], public: Sequence[bytes] = ()) -> None:
        self._plaintexts = plaintexts
        self._public = public
        self._words = np.unique(np.concatenate([_first_words(each) for each in plaintexts]))

    def hits(self, root: Path) -> tuple[int, int]:
        """Search every file below a folder; return how many runs were found, in how many bytes."""
        found = searched = 0
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                searched += len(data)
                found += sum(self._is_hit(data, at) for at in self._suspects(data))
        return found, searched

    def _suspects(self, data: bytes) -> Iterator[int]:
        for shift in range(_WORD):
            count = (len(data) - shift) // _WORD
            if count > 0:
                words = np.frombuffer(data, np.uint64, count, shift)
                for index in np.flatnonzero(np.isin(words, self._words)):
                    yield shift + int(index) * _WORD

    def _is_hit(self, data: bytes, at: int) -> bool:
        starts = range(max(0, at + _BLOCK - RUN), min(at, len(data) - RUN) + 1)
        runs = {data[start : start + RUN] for start in starts}
        return any(_in(run, self._plaintexts) and not _in(run, self._public) for run in runs)


def _in(run: bytes, texts: Sequence[bytes]) -> bool:
    return any(run in text for text in texts)


def _first_words(plaintext: bytes) -> np.ndarray:
    whole = len(plaintext) // _BLOCK
    words = np.frombuffer(plaintext, np.uint64, whole * _BLOCK // _WORD)
    return words[:: _BLOCK // _WORD]
