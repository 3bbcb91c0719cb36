"""The calls that change which packages and generations there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.asking import asking
from sealcar.catalogue import findings
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar.v1.package_store_pb2_grpc import PackageStoreStub

if TYPE_CHECKING:
    from sealcar import rpc

# seconds: the daemon answers when every file is gone
_LONGEST: Final = 600.0
_AT_ONCE: Final = 10_000  # generations that a daemon prunes in one call


@dataclass(frozen=True)
class PrunedGeneration:
    """One generation that went, or would go."""

    name: str
    version: str
    generation: int


@dataclass(frozen=True)
class Pruned:
    """What went, or would go.

    Attributes:
        generations: by name, then version, newest first.
        freed: bytes of disk, as far as they can be told.
    """

    generations: tuple[PrunedGeneration, ...]
    freed: int


class Managing:
    """What `Catalogue` offers to those who may manage packages.

    Attributes:
        _rpc: the connection.
    """

    _rpc: rpc.Channel

    def use(self, name: str, version: str) -> str:
        """Make a version the current one; return the one that was it before, or "".

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not manage the package.
            DamagedError: the version can't be opened, or the pointer that there is was forged.
            WrongStateError: the store is read-only.
        """
        with asking():
            request = pb.SetCurrentRequest(package=common.PackageRef(name=name, version=version))
        with self._rpc.translating("use"):
            answer = self._stub().SetCurrent(request, timeout=self._rpc.timeout)
            return answer.previous_version

    def remove(self, name: str, version: str, generation: int = 0) -> tuple[int, ...]:
        """Take a version out of the store, or one generation of it; return the numbers that went.

        Args:
            name: of the package.
            version: the current one can be removed only if it is the last one.
            generation: 0: all of them. Otherwise this one, which must not be the newest.

        Raises:
            NotFoundError: there is none, or none that the caller may know of.
            DeniedError: the caller may not manage the package.
            WrongStateError: it has to stay, or the store is read-only.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.RemoveRequest(package=package, generation=generation)
        with self._rpc.translating("remove"):
            return tuple(self._stub().Remove(request, timeout=self._patience).generations)

    def prune(
        self, name: str = "", version: str = "", *, keep: int = 0, dry_run: bool = False
    ) -> Pruned:
        """Remove generations that were followed by others, and what crashes left.

        Args:
            name: of a package; empty: all that the caller may manage.
            version: of it; empty: all.
            keep: so many of the newest generations of each version stay; 0: two. What is pinned
                or in use stays anyway.
            dry_run: only say what would go, of at most ten thousand generations.

        Raises:
            NotFoundError: there is no such package, or none that the caller may know of.
            DeniedError: the caller may not manage the package.
            WrongStateError: the store is read-only.
        """
        with asking():
            package = common.PackageRef(name=name, version=version)
            request = pb.PruneRequest(package=package, keep=keep, dry_run=dry_run)
        went: list[PrunedGeneration] = []
        freed = 0
        while True:
            with self._rpc.translating("prune"):
                answer = self._stub().Prune(request, timeout=self._patience)
            went += (
                PrunedGeneration(each.package.name, each.package.version, each.generation)
                for each in answer.generations
            )
            freed += answer.freed
            if dry_run or len(answer.generations) < _AT_ONCE:
                return Pruned(tuple(went), freed)

    def reseal(
        self, name: str, version: str = "", *, manifest_sha256: bytes | None = None
    ) -> findings.Resealed:
        """Seal a manifest that was edited in the store, as a new generation.

        Args:
            name: of the package.
            version: empty: the current one. Always its newest generation.
            manifest_sha256: of the manifest that is vouched for; None: only look what differs.

        Raises:
            ConflictError: the manifest was changed since it was looked at.
            WrongStateError: nothing differs from what was sealed.
            InvalidPackageError: what the manifest says now can't be sealed.
            UnknownFormatError: the manifest lost its seal record.
        """
        with asking():
            request = pb.ResealRequest(
                package=common.PackageRef(name=name, version=version),
                manifest_sha256=manifest_sha256 or b"",
                dry_run=manifest_sha256 is None,
            )
        with self._rpc.translating("reseal"):
            return findings.resealed(self._stub().Reseal(request, timeout=self._rpc.timeout))

    @property
    def _patience(self) -> float:
        return max(_LONGEST, self._rpc.timeout)

    def _stub(self) -> PackageStoreStub:
        return PackageStoreStub(self._rpc.get())
