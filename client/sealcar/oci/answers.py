"""What a registry's answers mean. Of what it says only codes are shown: it may say anything."""

from __future__ import annotations

import json
import re
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import requests
import urllib3.exceptions
import urllib3.util

from sealcar.errors import (
    DeniedError,
    NotFoundError,
    SealcarError,
    StorageError,
    TimedOutError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = 64 << 10
_CODE: Final = re.compile(r"[A-Z_]{1,64}", re.ASCII)
_KINDS: Final[dict[int, type[SealcarError]]] = {
    401: DeniedError,
    403: DeniedError,
    404: NotFoundError,
    429: UnavailableError,
}
_SERVER: Final = 500


def failed(what: str, response: requests.Response, body: bytes) -> SealcarError:
    """Return the error of an answer that isn't the one that was hoped for.

    Args:
        what: that was asked for, for a person.
        response: the answer, whose status counts.
        body: of it.
    """
    status = response.status_code
    kind = _KINDS.get(status, UnavailableError if status >= _SERVER else StorageError)
    codes = "".join(f" {code}" for code in _codes(body))
    hint = "; `docker login`, or a user name and password, may help" if kind is DeniedError else ""
    return kind(f"{what}: the registry answers {status}{codes}{hint}")


@contextmanager
def speaking(host: str, timeout: float) -> Iterator[None]:
    """Turn what went wrong on the way to a registry into an error that names no address.

    Args:
        host: of the registry.
        timeout: seconds that it may be silent.

    Raises:
        TimedOutError: it was.
        UnavailableError: it can't be reached; `retry_after` tells whether to try again.
        StorageError: it gave an address that is none.
    """
    try:
        yield
    except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError):
        raise TimedOutError(f"{host} was silent for {timeout:g} s") from None
    except (requests.exceptions.SSLError, ssl.SSLError) as error:
        raise UnavailableError(
            f"{host} can't prove who it is ({_reason(error)}); name who signs its certificate, or"
            " say that it speaks plain HTTP, if it does"
        ) from None
    except ValueError:  # of requests, too: such errors are both
        raise StorageError(f"{host} gave an address that is none") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise UnavailableError(
            f"{host} can't be reached, or broke off: {_reason(error)}", retry_after=1.0
        ) from None


def led(url: str, response: requests.Response) -> str:
    """Return where an answer leads from an address.

    Raises:
        StorageError: to none.
    """
    try:
        return urljoin(url, response.headers.get("Location", ""))
    except ValueError:
        raise StorageError("the registry gave an address that is none") from None


def origin(url: str) -> tuple[str, str, int]:
    """Return what has to be equal for two addresses to be of the same server; empty: it's none.

    It is read as it will be when it is connected to: another reader may find another host in it.
    """
    try:
        parts = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        return ("", "", 0)
    if not parts.scheme or not parts.host or "\\" in url or not url.isprintable():
        return ("", "", 0)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme.lower(), parts.host.lower(), port


def _codes(body: bytes) -> list[str]:
    """Return the codes of the specification's errors."""
    try:
        errors = json.loads(body)["errors"]
        found = [error["code"] for error in errors[:4]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [code for code in found if isinstance(code, str) and _CODE.fullmatch(code)]


def retry_after(response: requests.Response, most: float) -> float:
    """Return how long the registry asks us to wait, in seconds; 0: it doesn't say."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), most) if text.isascii() and text.isdigit() else 0.0


def _reason(error: BaseException | None) -> str:
    """Say what the system says of a failure: texts of libraries have addresses in them."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, BaseException) or one in seen:
            continue
        seen.append(one)
        if isinstance(one, OSError) and one.strerror:
            return one.strerror
        waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return type(error).__name__
