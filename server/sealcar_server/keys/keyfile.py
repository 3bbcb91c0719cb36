"""The text that holds key-encryption keys, read and made without a copy outside locked memory.

    sealcar key-encryption keys, format 1
    1 8f3a…            version, a space, 64 lower-case hexadecimal digits
    2 0c71…            the last line's key wraps new package keys

Versions are numbers from 1 to 9999 and only grow. Every line ends with a line feed.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from sealcar.errors import ConfigurationError, SealcarError
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from pathlib import Path

KEY: Final = 32
MOST: Final = 1 << 20
LAST_VERSION: Final = 9999
TITLE: Final = b"sealcar key-encryption keys, format 1\n"
_DIGITS: Final = b"0123456789abcdef"
_MAX_VERSION: Final = 4
_FEED: Final = 0x0A
_SPACE: Final = 0x20


def parse(text: memoryview, path: Path) -> dict[str, SecretBuffer]:
    """Return every key by its version, in the text's order.

    Raises:
        ConfigurationError: not a text of this form.
    """
    if bytes(text[: len(TITLE)]) != TITLE:
        raise ConfigurationError(f"key file {path} doesn't begin with {TITLE[:-1].decode()!r}")
    if text[-1] != _FEED:
        raise ConfigurationError(f"key file {path} is cut: its last line has no line feed")
    keys: dict[str, SecretBuffer] = {}
    with ExitStack() as made:
        at, line = len(TITLE), 2
        while at < len(text):
            end = next(place for place in range(at, len(text)) if text[place] == _FEED)
            version = _version(text[at:end])
            if version is None or int(version) <= int(next(reversed(keys), "0")):
                raise _bad_line(path, line)
            keys[version] = made.enter_context(SecretBuffer(KEY))
            if not _decode(text[at + len(version) + 1 : end], keys[version].view):
                raise _bad_line(path, line)
            at, line = end + 1, line + 1
        made.pop_all()
    return keys


def extended(text: memoryview | None, version: int) -> SecretBuffer:
    """Return a text with one new key more, of this version; without a text, a first one."""
    head = TITLE if text is None else text
    line = b"%d " % version
    made = SecretBuffer(len(head) + len(line) + 2 * KEY + 1)
    made.view[: len(head)] = head
    at = len(head) + len(line)
    made.view[len(head) : at] = line
    with SecretBuffer.random(KEY) as key:
        for index, value in enumerate(key.view):
            made.view[at + 2 * index] = _DIGITS[value >> 4]
            made.view[at + 2 * index + 1] = _DIGITS[value & 15]
    made.view[-1] = _FEED
    return made


def _version(line: memoryview) -> str | None:
    length = next((at for at, byte in enumerate(line[: _MAX_VERSION + 1]) if byte == _SPACE), 0)
    digits = bytes(line[:length])
    return digits.decode() if digits.isdigit() and not digits.startswith(b"0") else None


def _decode(digits: memoryview, key: memoryview) -> bool:
    if len(digits) != 2 * KEY:
        return False
    for index in range(KEY):
        high, low = _DIGITS.find(digits[2 * index]), _DIGITS.find(digits[2 * index + 1])
        if high < 0 or low < 0:
            return False
        key[index] = high << 4 | low
    return True


def _bad_line(path: Path, line: int) -> SealcarError:
    return ConfigurationError(
        f"key file {path}, line {line}: must be a version above the last one's, a space,"
        f" {2 * KEY} hexadecimal digits and a line feed"
    )
