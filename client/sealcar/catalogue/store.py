"""Client of the PackageStore service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import grpc

from sealcar import rpc
from sealcar.asking import asking
from sealcar.catalogue import findings, values
from sealcar.catalogue.exporting import Outgoing, export
from sealcar.catalogue.importing import Requests, imported
from sealcar.catalogue.managing import Managing
from sealcar.catalogue.prefetching import Prefetching
from sealcar.catalogue.resolving import Resolved, resolved
from sealcar.catalogue.verifying import Verification, await_end
from sealcar.closing import Closing
from sealcar.errors import IncompatibleError
from sealcar.unix_line import UnixLine
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar.catalogue.importing import Plan
    from sealcar.catalogue.intake import Exported
    from sealcar.catalogue.values import Watcher
    from sealcar.exports.places import Destination, Recipient
    from sealcar.transfer.scopes import ScopeName

PAGE: Final = 1000


class Catalogue(Managing, Prefetching, Closing):
    """A daemon's packages, over gRPC. Thread-safe.

    Args:
        channel: to the daemon; closed with this object.
    """

    def __init__(self, channel: rpc.Channel) -> None:
        self._rpc = channel

    @classmethod
    def at(cls, listener: Path, *, peer_uid: int, timeout: float = 30.0) -> Self:
        """Return the packages of a daemon on this machine.

        Args:
            listener: directory that holds `grpc.sock`.
            peer_uid: the daemon's uid, checked before anything is sent.
            timeout: seconds for one answer, and between two messages of a stream.
        """
        return cls(rpc.Channel(UnixLine(listener / "grpc.sock", peer_uid), timeout=timeout))

    def list(
        self, prefix: str = "", *, current: bool = False, component: str = "", ep: str = ""
    ) -> Iterator[values.PackageSummary]:
        """Yield the packages that the caller may list, by name, then version.

        Args:
            prefix: only names that begin with this.
            current: only the current version of each.
            component: only packages with a component of this name.
            ep: only packages with a variant for this execution provider.

        Raises:
            SealcarError: of the kind that the daemon found.
        """
        with asking():
            request = pb.ListRequest(
                page_size=PAGE, name_prefix=prefix, current_only=current, component=component, ep=ep
            )
        while True:
            with self._rpc.translating("list"):
                answer = self._stub().List(request, timeout=self._rpc.timeout)
            yield from map(values.summary, answer.packages)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def get(self, name: str, version: str = "", generation: int = 0) -> values.PackageDetail:
        """Return one package in full; `verified` says whether its seal record was checked.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DamagedError: its record isn't authentic.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.GetRequest(package=package, generation=generation)
        with self._rpc.translating("get"):
            return values.detail(self._stub().Get(request, timeout=self._rpc.timeout))

    def import_(
        self,
        plan: Plan,
        *,
        kek: str = "",
        sealed: bool = False,
        progress: Watcher | None = None,
    ) -> values.Imported:
        """Send a package; the daemon seals it as it arrives. Nothing stays behind on failure.

        Args:
            plan: what is sent.
            kek: alias of the key to seal under; empty: the store's default.
            sealed: it is a sealed export, which keeps its name, version, number and key.
            progress: is told how far it is.

        Raises:
            AlreadyExistsError: the version, or a sealed export's generation, is there already.
            InvalidPackageError: it breaks a rule; the message says where.
            DamagedError: a sealed export isn't what its record says, or older than what was seen.
        """
        source = Requests(plan, kek, sealed=sealed)
        with self._rpc.translating("import"):
            call = self._stub().Import(iter(source))
            try:
                with self._rpc.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        if answer.WhichOneof("step") == "imported":
                            await_end(call)
                            return imported(answer.imported)
                        _tell(progress, answer.progress)
            except grpc.RpcError as error:
                if source.failure is not None:
                    raise source.failure from error
                raise
            finally:
                call.cancel()
        raise IncompatibleError("the daemon ended the import without saying what it became")

    def verify(
        self,
        name: str,
        version: str = "",
        generation: int = 0,
        *,
        resume: str = "",
        progress: Watcher | None = None,
    ) -> values.Verified:
        """Have every byte of a package read and checked against its seal record.

        If the daemon goes away meanwhile and is back within the timeout, the check goes on where
        it was.

        Args:
            name: of the package.
            version: empty: the current one.
            generation: 0: the newest.
            resume: of `progress` of a check that was cut: goes on there.
            progress: is told how far it is.

        Raises:
            DamagedError: names the first payload that isn't what it should be.
            InvalidRequestError: `resume` is none that a check of this package gave.
            WrongStateError: the package has another generation by now.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.VerifyRequest(package=package, generation=generation, resume_token=resume)
        return Verification(self._rpc, request, progress).run()

    def export(
        self,
        name: str,
        destination: Destination,
        *,
        version: str = "",
        generation: int = 0,
        plain: bool = False,
        progress: Watcher | None = None,
    ) -> Exported:
        """Have one generation sent, sealed as it lies in the store; nothing is ever overwritten.

        Args:
            name: of the package.
            destination: where it goes; whole, or not at all.
            version: empty: the current one.
            generation: 0: the newest.
            plain: opened. The files are then for their owner only, and nothing protects them.
            progress: is told how far it is.

        Raises:
            AlreadyExistsError: there is something at the destination.
            DeniedError: the caller may not export it, or not so.
            DamagedError: it isn't what its record says, or what came is no export.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.ExportRequest(package=package, generation=generation, plain=plain)
        return export(self._rpc, request, destination, progress)

    def outgoing(
        self,
        name: str,
        version: str = "",
        generation: int = 0,
        *,
        recipient: Recipient | None = None,
    ) -> Outgoing:
        """Return what sends one generation, sealed, as often as somebody takes it.

        Raises:
            InvalidRequestError: the recipient is nobody.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.ExportRequest(package=package, generation=generation)
        return Outgoing(self._rpc, request, recipient)

    def resolve(self, scope: ScopeName, reference: str = "") -> Resolved:
        """Return what a scope, and a reference of its executor_info, stand for.

        Args:
            scope: component and variant may be empty if there is no reference.
            reference: a path relative to the variant, or "sha256:…" with or without a path.

        Raises:
            NotFoundError: there is no such thing, or none that the caller may know of.
            InvalidNameError: the reference leads out of the variant.
        """
        with asking():
            request = pb.ResolveRequest(scope=scope.message(), reference=reference)
        with self._rpc.translating("resolve"):
            return resolved(self._stub().Resolve(request, timeout=self._rpc.timeout))

    def validate(self, name: str, version: str = "", generation: int = 0) -> findings.Validated:
        """Have the structure of one generation checked, without reading payloads.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not verify it.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.ValidateRequest(package=package, generation=generation)
        with self._rpc.translating("validate"):
            return findings.validated(self._stub().Validate(request, timeout=self._rpc.timeout))

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()


def _tell(progress: Watcher | None, message: pb.Progress) -> None:
    if progress is not None:
        progress(values.Progress(message.done, message.total, message.payload))
