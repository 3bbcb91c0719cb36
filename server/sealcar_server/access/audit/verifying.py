"""Checks files of the log: that no line was changed, added, moved or taken out."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sealcar.errors import DamagedError, NotAuthenticError, NotFoundError, TruncatedError
from sealcar_server.access.audit.chain import (
    OPENING,
    Chain,
    Position,
    SealedKey,
    key_context,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sealcar_server.sealing.secret import SecretBuffer

_NO_KEY: Final = "doesn't begin with its key: the file before it is needed too"


@dataclass(frozen=True)
class Found:
    """What a set of files holds.

    Attributes:
        first, last: sequences; last with its MAC.
        cut: for each line that a crash cut, where it is and what is kept of it.
        open_end: bytes of a cut line at the very end, which no later line accounts for.
    """

    first: int
    last: Position
    cut: tuple[str, ...]
    open_end: int


@dataclass(frozen=True)
class _Line:
    place: str
    raw: bytes


class Verifier:
    """Checks one set of files.

    Args:
        unseal: gives a chain's first key for a context.
    """

    def __init__(self, unseal: Callable[[SealedKey, bytes], SecretBuffer]) -> None:
        self._unseal = unseal
        self._chain: Chain | None = None
        self._first = 0
        self._last: Position | None = None
        self._cut: list[str] = []
        self._open_end = 0

    def verify(self, files: Iterable[Path], known: Position | None = None) -> Found:
        """Check every line of these files, in whatever order they are named.

        Raises:
            NotAuthenticError: a line was changed, added, moved or taken out.
            TruncatedError: the log ends before the line that is known.
            NotFoundError: there is no line, or the known one is before the first.
            KeyRefusedError, KeyUnavailableError: a first key can't be unsealed.
            OSError: a file can't be read.
        """
        seen = known is None
        try:
            for line in self._lines(files):
                try:
                    self._check(line.raw)
                except DamagedError as error:
                    raise type(error)(f"{line.place}: {error.message}") from error
                seen = self._is_known(known) or seen
        finally:
            if self._chain is not None:
                self._chain.close()
        if self._last is None:
            raise NotFoundError("no line of an audit log is there")
        if known is not None and not seen:
            self._missing(known, self._last)
        return Found(self._first, self._last, tuple(self._cut), self._open_end)

    def _lines(self, files: Iterable[Path]) -> Iterator[_Line]:
        contents = sorted(
            ((_first_sequence(data), path, data) for path, data in _read(files)),
            key=lambda one: one[0],
        )
        for number, (_, path, data) in enumerate(contents, 1):
            yield from self._lines_of(path, data, last=number == len(contents))

    def _lines_of(self, path: Path, data: bytes, *, last: bool) -> Iterator[_Line]:
        torn = _accounted_for(data)
        at, number = 0, 0
        while at < len(data):
            number += 1
            place = f"{path.name}, line {number}"
            if at in torn:
                self._cut.append(f"{place}: {torn[at]} bytes")
                at += torn[at]
                at += data[at - 1 : at] != b"\n"
                continue
            end = data.find(b"\n", at)
            if end < 0 and last:
                self._open_end = len(data) - at
                return
            yield _Line(place, data[at : end if end >= 0 else len(data)])
            at = end + 1 if end >= 0 else len(data)

    def _check(self, raw: bytes) -> None:
        text, values, position = parse(raw)
        if values.get("event") in OPENING:
            self._open(values)
        if self._chain is None:
            raise NotAuthenticError(_NO_KEY)
        if not hmac.compare_digest(self._chain.mac(text), position.mac):
            raise NotAuthenticError(
                "the MAC is wrong: this line was changed, or one before it added or taken out"
            )
        if self._last is not None and position.sequence != self._last.sequence + 1:
            raise NotAuthenticError(f"its sequence follows {self._last.sequence} and doesn't fit")
        self._chain.advance()
        self._first = self._first or position.sequence
        self._last = position

    def _open(self, values: dict[str, Any]) -> None:
        try:
            sealed, previous = values["key"], values["previous"]
            blob = base64.b64decode(sealed["blob"], validate=True)
            key = SealedKey(str(sealed["alias"]), str(sealed["version"]), blob)
            before = Position(previous["sequence"], str(previous["mac"]))
            context = key_context(values["instance"])
        except (KeyError, TypeError, ValueError) as error:
            raise NotAuthenticError("a line that begins a chain lacks its key") from error
        if self._last is not None and before != self._last:
            raise NotAuthenticError(
                f"it follows line {before.sequence}, but what is there ends with "
                f"{self._last.sequence}: lines were taken out or added"
            )
        if self._chain is not None:
            self._chain.close()
        self._chain = Chain(self._unseal(key, context))

    def _is_known(self, known: Position | None) -> bool:
        last = self._last
        if known is None or last is None or last.sequence != known.sequence:
            return False
        if not hmac.compare_digest(last.mac, known.mac):
            raise NotAuthenticError(
                f"line {known.sequence} isn't the one that is known: the log was cut before it, "
                "and went on otherwise"
            )
        return True

    def _missing(self, known: Position, last: Position) -> None:
        if known.sequence > last.sequence:
            raise TruncatedError(
                f"the log ends with line {last.sequence}, but line {known.sequence} was written: "
                "its end was cut off"
            )
        raise NotFoundError(f"line {known.sequence} is before the first of these files")


def _read(files: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
    for path in files:
        yield path, path.read_bytes()


def _first_sequence(data: bytes) -> int:
    for raw in data.split(b"\n"):
        try:
            return parse(raw)[2].sequence
        except NotAuthenticError:
            continue
    return 0


def _accounted_for(data: bytes) -> dict[int, int]:
    """Return where cut lines are, and how long, as the `recovered` line right after each says."""
    found = {}
    at = data.find(b'"event":"recovered"')
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        torn = _torn(data[start : end if end >= 0 else len(data)])
        if torn is not None:
            begin, size, digest = torn
            rest = data[begin : begin + size]
            fits = start == begin + size + (not rest.endswith(b"\n"))
            if fits and hashlib.sha256(rest).hexdigest() == digest:
                found[begin] = size
        at = data.find(b'"event":"recovered"', at + 1)
    return found


def _torn(raw: bytes) -> tuple[int, int, str] | None:
    try:
        torn = parse(raw)[1]["torn"]
        begin, size, digest = int(torn["at"]), int(torn["bytes"]), str(torn["sha256"])
    except (NotAuthenticError, KeyError, TypeError, ValueError):
        return None
    return (begin, size, digest) if begin >= 0 and size > 0 else None
