"""Client of the admin socket, for operators: the daemon's keys, and what is done with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from sealcar import custody, errors, keysets, oversight, rpc
from sealcar.asking import asking
from sealcar.closing import Closing
from sealcar.transfer.location import Location
from sealcar.unix_line import UnixLine
from sealcar.v1 import admin_pb2
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import keys_pb2 as pb
from sealcar.v1.admin_pb2_grpc import AdminStub
from sealcar.v1.keys_pb2_grpc import KeysStub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sealcar.address import Address
    from sealcar.custody import (
        Hanging,
        KeysStatus,
        Locked,
        Revoked,
        Rewrapped,
        RewrapStep,
        Rotated,
        Shredded,
    )
    from sealcar.keysets import TinkExport
    from sealcar.oversight import Figures, Oversight


class Admin(Closing):
    """A daemon's admin socket.

    Args:
        directory: holds `admin.sock`.
        peer_uid: the daemon's uid, checked before anything is sent.
        timeout: seconds for one answer, and between two messages of a stream.
    """

    def __init__(self, directory: Path, *, peer_uid: int, timeout: float = 30.0) -> None:
        self._rpc = rpc.Channel(UnixLine(directory / "admin.sock", peer_uid), timeout=timeout)

    @classmethod
    def at(cls, directory: Path, *, timeout: float = 30.0) -> Self:
        """Return the admin socket of the daemon whose directory this is.

        Raises:
            ConfigurationError: nothing says whose it is, or its path is none for a socket.
            UnavailableError: there is no such directory.
        """
        location = Location.find(directory, None)
        return cls(location.directory, peer_uid=location.expected_uid(), timeout=timeout)

    def status(self) -> KeysStatus:
        """Ask every key provider for its health.

        Raises:
            UnavailableError: nobody listens, or not to this user.
        """
        with self._rpc.translating("status"):
            answer = self._stub().Status(pb.KeysStatusRequest(), timeout=self._rpc.timeout)
        return custody.keys_status(answer)

    def oversight(self) -> Oversight:
        """Ask which policy is in force, for the audit log's last line, and what is given up.

        Raises:
            UnavailableError: nobody listens, or not to this user.
        """
        with self._rpc.translating("status"):
            stub = AdminStub(self._rpc.get())
            answer = stub.Status(admin_pb2.AdminStatusRequest(), timeout=self._rpc.timeout)
        return oversight.oversight(answer)

    def figures(self) -> Figures:
        """Ask for the figures of /metrics as they are now, and for who is connected.

        Raises:
            IncompatibleError: the daemon is of an older release.
            UnavailableError: nobody listens, or not to this user.
        """
        with self._rpc.translating("figures"):
            stub = AdminStub(self._rpc.get())
            answer = stub.Figures(admin_pb2.FiguresRequest(), timeout=self._rpc.timeout)
        return oversight.figures(answer)

    def rotate(self, alias: str = "") -> Rotated:
        """Give a key-encryption key a new version.

        Args:
            alias: empty: the one that the store's own key is under.

        Raises:
            WrongStateError: this kind of key gets its versions at its service.
            KeyRefusedError, KeyUnavailableError, ConflictError, StorageError: there is no new one.
            UnavailableError: nobody listens, or not to this user.
        """
        with asking():
            request = pb.RotateRequest(alias=alias)
        with self._rpc.translating("rotate"):
            answer = self._stub().Rotate(request, timeout=self._rpc.timeout)
        return custody.Rotated(answer.alias, answer.version)

    def rewrap(
        self,
        progress: Callable[[RewrapStep], None],
        *,
        from_version: str = "",
        packages: Iterable[tuple[str, str]] = (),
    ) -> Rewrapped:
        """Move packages to the current version of their key-encryption key.

        Args:
            progress: is told how far it is.
            from_version: only what is under this version; empty: all that isn't current.
            packages: only these, (name, version) each, an empty version for all of a name.

        Raises:
            ConflictError: somebody else is at it.
            NotFoundError: a package isn't there.
            KeyRefusedError, KeyUnavailableError, ExhaustedError, StorageError: it ended early;
                what was moved stays moved.
            TimedOutError, UnavailableError: the daemon fell silent.
        """
        with asking():
            wanted = [common.PackageRef(name=name, version=version) for name, version in packages]
            request = pb.RewrapRequest(from_version=from_version, packages=wanted)
        with self._rpc.translating("rewrap"):
            call = self._stub().Rewrap(request)
            with self._rpc.patience(call) as patience:
                for answer in call:
                    patience.beat()
                    if answer.WhichOneof("step") == "rewrapped":
                        return custody.rewrapped(answer.rewrapped)
                    step = answer.progress
                    package = f"{step.package.name}@{step.package.version}"
                    progress(custody.RewrapStep(step.done, step.total, package))
        raise errors.UnavailableError("the daemon ended without a result").at(phase="rewrap")

    def report(self) -> Iterator[Hanging]:
        """Yield what hangs on which version: the store's own key, then every generation.

        Raises:
            StorageError: the store can't be listed.
            TimedOutError, UnavailableError: the daemon fell silent.
        """
        with self._rpc.translating("report"):
            call = self._stub().Report(pb.ReportRequest())
            with self._rpc.patience(call) as patience:
                for answer in call:
                    patience.beat()
                    yield from map(custody.hanging, answer.hanging)

    def revoke(self, version: str, alias: str = "") -> Revoked:
        """Have a version of a key-encryption key refused for good, cached keys included.

        Args:
            version: which.
            alias: empty: the key that the store's own key is under.

        Raises:
            WrongStateError: it wraps new keys, or the store's own key is under it.
            NotFoundError: the key has no such version.
            KeyRefusedError, KeyUnavailableError: there is no such key now.
            ExhaustedError, StorageError: it holds until the daemon ends, and not longer.
            UnavailableError: nobody listens, or not to this user.
        """
        with asking():
            request = pb.RevokeRequest(version=version, alias=alias)
        with self._rpc.translating("revoke"):
            done = self._stub().Revoke(request, timeout=self._rpc.timeout)
        return custody.revoked(done)

    def shred(self, package: str, version: str = "") -> Shredded:
        """Have every generation of a package removed from the store, for good.

        Args:
            package: its name.
            version: empty: all of them.

        Raises:
            NotFoundError: there is none.
            KeyRefusedError, KeyUnavailableError: the store's own key can't be had.
            ExhaustedError, StorageError: not all of it is removed; the same call goes on.
            UnavailableError: nobody listens, or not to this user.
        """
        with asking():
            request = pb.ShredRequest(package=common.PackageRef(name=package, version=version))
        with self._rpc.translating("shred"):
            done = self._stub().Shred(request, timeout=self._rpc.timeout)
        return custody.shredded(done)

    def lock(self) -> Locked:
        """Have every key dropped; what needs one is refused until `unlock`.

        Raises:
            UnavailableError: nobody listens, or not to this user.
        """
        with self._rpc.translating("lock"):
            answer = self._stub().Lock(pb.LockRequest(), timeout=self._rpc.timeout)
        return custody.Locked(custody.holders(answer.holders), answer.aborted)

    def unlock(self) -> None:
        """Have every key provider opened again.

        Raises:
            KeyRefusedError, KeyUnavailableError: the daemon stays locked.
            UnavailableError: nobody listens, or not to this user.
        """
        with self._rpc.translating("unlock"):
            self._stub().Unlock(pb.UnlockRequest(), timeout=self._rpc.timeout)

    def export_tink(self, scope: Address, kek: str = "") -> TinkExport:
        """Have the keys of a variant, and of the shared assets that it refers to, let out.

        Args:
            scope: a variant.
            kek: alias of a key at a service that Tink knows; empty: the keyset is clear.

        Raises:
            WrongStateError: the daemon's settings let no key out, or Tink can't use that key.
            NotFoundError: there is no such variant, or nothing of it is sealed.
            DamagedError, KeyRefusedError, KeyUnavailableError, StorageError: it can't be opened,
                encrypted or accounted for.
            TimedOutError, UnavailableError: nobody listens, or not to this user.
        """
        request = keysets.request_of(scope, kek)
        with self._rpc.translating("export-tink"):
            call = self._stub().ExportTink(request)
            with self._rpc.patience(call) as patience:

                def heard() -> Iterator[pb.ExportTinkResponse]:
                    for answer in call:
                        patience.beat()
                        yield answer

                return keysets.gathered(heard())

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()

    def _stub(self) -> KeysStub:
        return KeysStub(self._rpc.get())
