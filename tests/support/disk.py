"""What lies on the disk: which files are new or changed, and whether they hold known plaintext."""

from __future__ import annotations

import itertools
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

RUN: Final = 64
# every run of RUN bytes holds a whole block that is aligned in the plaintext
BLOCK: Final = RUN // 2
# of a large plaintext so many blocks, evenly spread, are looked for
_BLOCKS: Final = 1 << 15
_BITS: Final = 22
_PIECE: Final = 8 << 20
# no files that anybody could keep plaintext in
_NOT_WALKED: Final = frozenset({"/proc", "/sys", "/dev"})


@dataclass(frozen=True)
class Hit:
    """A run of plaintext in a file."""

    path: str
    offset: int
    plaintext: str


def shared_places() -> list[Path]:
    """Return the directories of others that a library might write to without being asked."""
    home = Path.home()
    places = {Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm"), home / ".cache"}  # noqa: S108  (to look at them)
    return sorted(place for place in places if place.is_dir() and os.access(place, os.W_OK))


def everywhere() -> list[Path]:
    """Return the roots of everything that this process could write to."""
    return [Path("/"), Path("/dev/shm")]  # noqa: S108  (to look at it)


def stamps(roots: Iterable[Path], *, without: Iterable[Path] = ()) -> dict[str, tuple[int, int]]:
    """Return change time and size of every regular file below some directories."""
    skip = _NOT_WALKED | {str(path) for path in without}
    return dict(_walk([str(root) for root in roots], skip))


def changed(
    before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]
) -> list[str]:
    """Return the files that are new or were written to."""
    return sorted(path for path, stamp in after.items() if before.get(path) != stamp)


def runs(files: Iterable[str], plaintexts: Mapping[str, bytes]) -> list[Hit]:
    """Return the first run of 64 bytes of each plaintext in each file that has one.

    A plaintext of up to 1 MiB is searched for whole. Of a larger one evenly spread blocks are: then
    a short run may be missed, a long one can't be.
    """
    needles = {name: _Needle(data) for name, data in plaintexts.items()}
    return [hit for path in files for hit in _in_file(path, needles)]


def files_below(root: Path) -> list[str]:
    """Return every regular file below a directory."""
    return [path for path, _ in _walk([str(root)], frozenset())]


class Watch:
    """What is written below some directories, from now on; directories of the daemon apart.

    Args:
        allowed: where files may appear: the daemon's own directory.
        private: where nothing else writes, so that any other new file counts.
    """

    def __init__(self, *, allowed: Path, private: Path) -> None:
        self._allowed = allowed
        self._private = private
        self._places = [*shared_places(), private]
        self._before = self._stamps()

    def assert_nothing_plain(self, plaintexts: Mapping[str, bytes], *, public: str = "") -> None:
        """Assert that no file appeared but ciphertext in the daemon's directory.

        Args:
            plaintexts: what is searched for, by name.
            public: a text in them that the manifest shows to everybody.
        """
        secret = {name: _without(data, public.encode()) for name, data in plaintexts.items()}
        new = changed(self._before, self._stamps())
        private = [path for path in new if path.startswith(f"{self._private}/")]
        assert not private, private
        # others write to the shared places as well, but they can't have the plaintext
        hits = runs([*new, *files_below(self._allowed)], secret)
        assert not hits, hits

    def _stamps(self) -> dict[str, tuple[int, int]]:
        return stamps(self._places, without=[self._allowed])


def _without(data: bytes, public: bytes) -> bytes:
    """Return a plaintext with noise in place of every run that is public."""
    for at in range(len(public) - RUN + 1):
        data = data.replace(public[at : at + RUN], secrets.token_bytes(RUN))
    return data


class _Needle:
    """The blocks of one plaintext, by their first eight bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        whole = np.frombuffer(data, np.uint8, len(data) // BLOCK * BLOCK).reshape(-1, BLOCK)
        step = max(1, len(whole) // _BLOCKS)
        at = np.arange(0, len(whole), step)
        blocks = whole[at]
        # a block of few different bytes occurs anywhere
        varied = (np.sort(blocks, axis=1)[:, 1:] != np.sort(blocks, axis=1)[:, :-1]).sum(axis=1) > 7
        words = np.ascontiguousarray(blocks[varied][:, :8]).view("<u8").ravel()
        order = np.argsort(words)
        self.words = words[order]
        self.starts = (at[varied] * BLOCK)[order]
        self.filter = np.zeros(1 << _BITS, np.bool_)
        self.filter[self.words & ((1 << _BITS) - 1)] = True

    def find(self, text: NDArray[np.uint8]) -> int | None:
        """Return where a run of the plaintext begins in a text, or None."""
        for shift in range(8):
            count = (len(text) - shift) // 8
            if count <= 0:
                return None
            words = text[shift : shift + count * 8].view("<u8")
            likely = np.flatnonzero(self.filter[words & ((1 << _BITS) - 1)])
            for position in likely[np.isin(words[likely], self.words)]:
                start = self._run(text, int(position) * 8 + shift, words[position])
                if start is not None:
                    return start
        return None

    def _run(self, text: NDArray[np.uint8], at: int, word: np.uint64) -> int | None:
        """Return where the run around a block begins, if it has RUN bytes."""
        first, last = np.searchsorted(self.words, word), np.searchsorted(self.words, word, "right")
        for start in self.starts[first:last]:
            left = min(RUN, at, int(start))
            mine = self.data[start - left : start + RUN]
            other = text[at - left : at - left + len(mine)].tobytes()
            # the block is in the run: what is around it may be zeros anywhere
            for skip in range(max(0, left - BLOCK), left + 1):
                if len(mine) - skip >= RUN and other[skip : skip + RUN] == mine[skip : skip + RUN]:
                    return at - left + skip
        return None


def _in_file(path: str, needles: Mapping[str, _Needle]) -> list[Hit]:
    found: dict[str, Hit] = {}
    try:
        # not mapped: somebody may truncate it meanwhile
        with Path(path).open("rb") as file:
            for at in itertools.count(0, _PIECE):
                text = np.frombuffer(os.pread(file.fileno(), _PIECE + RUN, at), np.uint8)
                for name in needles.keys() - found.keys():
                    start = needles[name].find(text)
                    if start is not None:
                        found[name] = Hit(path, at + start, name)
                if len(text) <= _PIECE:
                    break
    except OSError:  # gone meanwhile, or not ours to read
        pass
    return list(found.values())


def _walk(roots: list[str], skip: frozenset[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    pending = roots
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:  # gone meanwhile, or not ours to read
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.path not in skip:
                        pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    yield entry.path, (stat.st_ctime_ns, stat.st_size)
            except OSError:  # gone meanwhile
                continue
