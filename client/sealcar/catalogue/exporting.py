"""Asks for an export, and takes it off the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealcar.asking import asking
from sealcar.catalogue.intake import Exported, Intake
from sealcar.catalogue.verifying import await_end
from sealcar.errors import InvalidRequestError, TruncatedError, WrongStateError
from sealcar.exports.places import Folder
from sealcar.exports.tar import Tar
from sealcar.v1.package_store_pb2_grpc import PackageStoreStub

if TYPE_CHECKING:
    from collections.abc import Generator

    from sealcar import rpc
    from sealcar.catalogue import values
    from sealcar.exports.places import Destination, Recipient, Target
    from sealcar.v1 import package_store_pb2 as pb


def export(
    channel: rpc.Channel,
    request: pb.ExportRequest,
    destination: Destination,
    progress: values.Watcher | None,
) -> Exported:
    """Have a package sent; it is at its destination whole, or not at all.

    Raises:
        InvalidRequestError: the recipient is nobody.
        WrongStateError: it was to be signed, and the daemon doesn't sign.
        AlreadyExistsError: there is something at the destination.
        NotAuthenticError, TruncatedError: the daemon sent what is no export.
        SealcarError: what the daemon found.
    """
    kind = Tar if destination.tar else Folder
    outgoing = Outgoing(channel, request, destination.recipient)
    with kind(destination.path, private=request.plain) as target:
        exported = outgoing.deliver(target, progress)
        target.finish()
        return exported


class Outgoing:
    """One generation that is sent as often as somebody takes it.

    Args:
        channel: to the daemon.
        request: which, and how.
        recipient: whom it is for; None: the daemon's own key opens it.

    Raises:
        InvalidRequestError: the recipient is nobody.
    """

    def __init__(
        self, channel: rpc.Channel, request: pb.ExportRequest, recipient: Recipient | None
    ) -> None:
        self._channel, self._request = channel, request
        self._signed = recipient is not None and recipient.signed
        if recipient is not None:
            # an empty one would be none, and the package not wrapped for anybody
            if bool(recipient.alias) is bool(recipient.key):
                raise InvalidRequestError("a recipient is an alias of the configuration, or a key")
            with asking():
                request.recipient, request.recipient_key = recipient.alias, recipient.key
                request.not_after = recipient.not_after

    def deliver(self, target: Target, progress: values.Watcher | None) -> Exported:
        """Have it sent to a target, which is whole when this returns, and not finished.

        Raises:
            WrongStateError: it was to be signed, and the daemon doesn't sign.
            NotAuthenticError, TruncatedError: the daemon sent what is no export.
            SealcarError: what the daemon found, or the target.
        """
        exported = None
        for exported in self.steps(target, progress):  # noqa: B007  (the last one counts)
            pass
        if exported is None:
            raise _cut()
        return exported

    def steps(self, target: Target, progress: values.Watcher | None) -> Generator[Exported | None]:
        """Have it sent message by message: whoever takes them may take his time between two.

        Yields:
            Nothing yet, after each message; at last what the export was.

        Raises:
            As `deliver`.
        """
        intake = Intake(target, progress, self._request)
        with self._channel.translating("export"):
            call = PackageStoreStub(self._channel.get()).Export(self._request)
            try:
                with self._channel.patience(call) as patience:
                    for answer in call:
                        patience.rest()
                        exported = intake.take(answer)
                        if exported is not None:
                            self._check(intake.manifest)
                            await_end(call)
                        yield exported
                        if exported is not None:
                            return
                        patience.beat()
            finally:
                call.cancel()
        raise _cut()

    def _check(self, manifest: bytearray) -> None:
        if self._signed and not _is_signed(manifest):
            raise WrongStateError(
                "the daemon signs nothing: name a key as transit.signing_key in its settings"
            )


def _cut() -> TruncatedError:
    return TruncatedError("the export ended before it was whole").at(phase="export")


def _is_signed(manifest: bytearray) -> bool:
    # whether it is right, whoever takes it in finds out: a client has no cipher
    try:
        return bool(json.loads(manifest)["additional_metadata"]["sealcar"]["signature"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
