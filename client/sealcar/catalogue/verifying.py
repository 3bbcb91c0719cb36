"""Has every byte of a package checked, and goes on where it was if the daemon was away a while."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

import grpc

from sealcar.catalogue import values
from sealcar.errors import IncompatibleError, UnavailableError
from sealcar.v1.package_store_pb2_grpc import PackageStoreStub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar import rpc
    from sealcar.catalogue.values import Watcher
    from sealcar.v1 import package_store_pb2 as pb

_PAUSE: Final = 0.2  # seconds before a daemon that was there is looked for again


class Verification:
    """One check of one package.

    Args:
        channel: to the daemon.
        request: what is checked, and from where on.
        progress: is told how far it is.
    """

    def __init__(
        self, channel: rpc.Channel, request: pb.VerifyRequest, progress: Watcher | None
    ) -> None:
        self._channel, self._request, self._progress = channel, request, progress
        self._heard = 0.0

    def run(self) -> values.Verified:
        """Check it all.

        Raises:
            DamagedError: of the first payload that isn't what it should be.
            UnavailableError: the daemon went away and wasn't back within the timeout.
            SealcarError: what else the daemon found.
        """
        try:
            return self._attempt(self._channel)
        except UnavailableError as error:
            if not self._heard:
                raise
            failure = error
        # a channel that lost its daemon takes its time to look for it again
        while time.monotonic() - self._heard < self._channel.timeout:
            time.sleep(_PAUSE)
            with contextlib.closing(self._channel.again()) as channel:
                try:
                    return self._attempt(channel)
                except UnavailableError as error:
                    failure = error
        raise failure

    def _attempt(self, channel: rpc.Channel) -> values.Verified:
        with channel.translating("verify"):
            call = PackageStoreStub(channel.get()).Verify(self._request)
            try:
                with channel.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        self._heard = time.monotonic()
                        if answer.WhichOneof("step") == "verified":
                            found = answer.verified
                            await_end(call)
                            return values.Verified(found.generation, found.payloads, found.size)
                        self._tell(answer.progress)
            finally:
                call.cancel()
        raise IncompatibleError("the daemon ended the check without a result")

    def _tell(self, step: pb.Progress) -> None:
        if step.resume_token:
            self._request.resume_token = step.resume_token
        if self._progress is not None:
            token = self._request.resume_token
            self._progress(values.Progress(step.done, step.total, step.payload, token))


def await_end(call: Iterator[object]) -> None:
    """Let a call that has said all end by itself: the daemon counts a cut one as cancelled."""
    with contextlib.suppress(grpc.RpcError):
        next(call, None)
