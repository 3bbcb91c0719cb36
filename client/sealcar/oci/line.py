"""Requests to one registry: bounded in time, in size, and in whom they tell credentials.

Of `oras` come the session, a registry's addresses, and whom it takes us for. Its own `do_request`
asks up to six times and sleeps over two minutes between, waits for an answer for ever and follows
any redirect, and its upload holds a whole blob in memory: so requests are made here.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final, Self

import oras.provider
from requests.utils import get_environ_proxies

from sealcar.closing import Closing
from sealcar.errors import (
    DeniedError,
    NotAuthenticError,
    SealcarError,
    TimedOutError,
    UnavailableError,
)
from sealcar.oci import answers, prompt
from sealcar.oci.bodies import Once
from sealcar.oci.credentials import Login
from sealcar.oci.references import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    import requests

    from sealcar.oci.access import Access
    from sealcar.oci.references import Reference

_CONNECT: Final = 20.0
_REDIRECTS: Final = 5
_TRIES: Final = 4
_WAIT: Final = 0.2
_PATIENCE: Final = 30.0  # that a registry's Retry-After may ask for
_MOST_TOKEN: Final = 1 << 20
_PIECE: Final = 1 << 16
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_LATER: Final = frozenset({429, 502, 503, 504})
_UNAUTHORISED: Final = 401


class Line(oras.provider.Registry, Closing):  # type: ignore[misc]  # oras publishes no types
    """One registry.

    Args:
        reference: of an artifact there.
        access: how it is reached, and as whom.

    Raises:
        ConfigurationError: the certificate authorities, or the credentials, can't be read.
    """

    def __init__(self, reference: Reference, access: Access) -> None:
        access.check()
        super().__init__(
            reference.host,
            insecure=access.plain_http,
            tls_verify=str(access.ca) if access.ca else True,
        )
        for scheme in ("https://", "http://"):
            self.session.mount(scheme, prompt.Adapter())
        # no ~/.netrc, whose passwords would go to whoever a registry sends us to
        self.session.trust_env = False
        # a digest is of bytes as they are
        self.session.headers.update({"Accept-Encoding": "identity", "User-Agent": "sealcar"})
        self._place = self.get_container(f"{reference.place}:{reference.tag or LATEST}")
        self._origin = answers.origin(f"{self.prefix}://{reference.host}")
        self._timeout = access.timeout
        try:
            self.auth = Login(reference.host, access, self._token)
        except BaseException:
            self.session.close()
            raise

    def close(self) -> None:
        """Close its connections."""
        self.session.close()

    def manifest_url(self, name: str) -> str:
        """Return the address of a manifest, by its tag or digest."""
        return f"{self.prefix}://{self._place.manifest_url(name)}"

    def blob_url(self, digest: str) -> str:
        """Return the address of a blob."""
        return f"{self.prefix}://{self._place.get_blob_url(digest)}"

    def uploads_url(self) -> str:
        """Return the address at which uploads begin."""
        return f"{self.prefix}://{self._place.upload_blob_url()}"

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: Any = None,  # noqa: ANN401  (of oras)
        headers: Mapping[str, str] | None = None,
        json: None = None,  # noqa: ARG002  (of oras; not used here)
        stream: bool = True,  # noqa: ARG002, FBT001, FBT002  (of oras)
    ) -> requests.Response:
        """Ask once more where that may help; return the answer, whatever it is.

        Raises:
            UnavailableError, TimedOutError: the registry doesn't answer.
            DeniedError, NotAuthenticError: it sends us where nobody should go.
        """
        if data is not None:
            return self._authorised(url, method, data, headers or {})
        for tried in range(1, _TRIES + 1):
            try:
                response = self._authorised(url, method, None, headers or {})
            except UnavailableError as error:
                if tried == _TRIES or error.retry_after is None:
                    raise
                wait = 0.0
            else:
                if response.status_code not in _LATER or tried == _TRIES:
                    return response
                wait = answers.retry_after(response, _PATIENCE)
                response.close()
            time.sleep(wait or _WAIT * 2**tried * random.uniform(0.5, 1))  # noqa: S311  (spreads load)
        raise AssertionError  # the last round returns or raises

    def _authorised(
        self,
        url: str,
        method: str,
        data: bytes | Once | None,
        headers: Mapping[str, str],
    ) -> requests.Response:
        response = self._followed(url, method, data, headers)
        # who was sent elsewhere, and what can't be sent twice, has had its chance
        if (
            response.status_code != _UNAUTHORISED
            or isinstance(data, Once)
            or answers.origin(str(response.url)) != self._origin
        ):
            return response
        try:
            if not self.auth.answer(response):
                return response
        except SealcarError:
            response.close()
            raise
        response.close()
        return self._followed(url, method, data, headers)

    def _followed(
        self,
        url: str,
        method: str,
        data: bytes | Once | None,
        headers: Mapping[str, str],
    ) -> requests.Response:
        for _ in range(_REDIRECTS + 1):
            response = self._once(url, method, data, headers)
            if response.status_code not in _MOVED or method not in ("GET", "HEAD"):
                return response
            response.close()
            url = answers.led(url, response)
        raise NotAuthenticError(f"{self.hostname} redirects over {_REDIRECTS} times")

    def _once(
        self,
        url: str,
        method: str,
        data: bytes | Once | None,
        headers: Mapping[str, str],
    ) -> requests.Response:
        own = answers.origin(url) == self._origin
        return self._sent(
            method, url, data=data, headers={**headers, **(self.auth.headers() if own else {})}
        )

    def _sent(self, method: str, url: str, **options: Any) -> requests.Response:  # noqa: ANN401
        """Ask exactly this, and follow nothing."""
        if answers.origin(url)[0] not in ("https", self.prefix):
            raise DeniedError(f"{self.hostname} leads to an address that is none, or has no TLS")
        with self.speaking():
            response: requests.Response = self.session.request(
                method,
                url,
                stream=True,
                allow_redirects=False,
                verify=self._tls_verify,
                timeout=(_CONNECT, self._timeout),
                proxies=get_environ_proxies(url, no_proxy=None),
                **options,
            )
            return response

    def speaking(self) -> AbstractContextManager[None]:
        """Turn what goes wrong on the way into an error of sealcar."""
        return answers.speaking(self.hostname, self._timeout)

    def small(self, response: requests.Response, most: int) -> bytes:
        """Return what came, and close it.

        Raises:
            NotAuthenticError: it is over so many bytes.
            UnavailableError, TimedOutError: it doesn't come.
        """
        end = time.monotonic() + self._timeout
        found = bytearray()
        with response:
            for piece in self.pieces(response):
                found += piece
                if len(found) > most:
                    raise NotAuthenticError(f"{self.hostname} sent over {most} bytes")
                if time.monotonic() > end:
                    raise self._slow()
        return bytes(found)

    def pieces(self, response: requests.Response) -> Iterator[bytes]:
        """Yield what comes, in pieces of at most 64 KiB, of which one may take so many seconds.

        Raises:
            UnavailableError, TimedOutError: no more comes.
        """
        with self.speaking():
            yield from prompt.pieces(response.raw, _PIECE, self._timeout)

    def _slow(self) -> TimedOutError:
        return TimedOutError(f"{self.hostname} sends too slowly")

    def _token(self, url: str, params: Mapping[str, str], headers: Mapping[str, str]) -> bytes:
        response = self._sent("GET", url, params=dict(params), headers=dict(headers))
        data = self.small(response, _MOST_TOKEN)
        return data if response.ok else b""

    def __enter__(self) -> Self:
        return self
