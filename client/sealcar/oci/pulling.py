"""Out of a registry into a store: blobs go to the daemon as they come, and through no disk.

What the digests of the artifact don't name isn't taken in, nor what the seal record doesn't name;
the daemon checks every byte besides, and publishes nothing before the last one.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.errors import InvalidPackageError, NotFoundError
from sealcar.names import shown
from sealcar.oci import artifacts
from sealcar.oci.access import Access
from sealcar.oci.repository import Repository
from sealcar.publish.sealed import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.catalogue import Catalogue
    from sealcar.catalogue.values import Watcher
    from sealcar.exports.paths import PayloadPath
    from sealcar.oci.artifacts import Artifact, Blob
    from sealcar.oci.references import Reference
    from sealcar.publish import ImportPlan


@dataclass(frozen=True)
class Pulled:
    """What a store has now.

    Attributes:
        name, version, generation: of the package there.
        package_id: 16 bytes.
        digest: of the artifact's manifest.
        payloads: how many.
        size: bytes of them, as they lie in the store.
    """

    name: str
    version: str
    generation: int
    package_id: bytes
    digest: str
    payloads: int
    size: int


def pull(  # noqa: PLR0913  (options are named)
    catalogue: Catalogue,
    reference: Reference,
    *,
    access: Access | None = None,
    name: str | None = None,
    version: str | None = None,
    kek: str = "",
    progress: Watcher | None = None,
) -> Pulled:
    """Bring a sealed package into a store. Nothing stays behind on failure.

    Args:
        catalogue: of the daemon.
        reference: where it is; without tag and digest: `latest`.
        access: how the registry is reached, and as whom.
        name: in the store; only what somebody else sent can get another one.
        version: likewise.
        kek: alias of the key to seal under, likewise.
        progress: is told how far it is.

    Raises:
        NotAuthenticError, TruncatedError: what came isn't what its digest, or the record, says.
        InvalidPackageError: the artifact is no sealed package, or breaks a rule.
        AlreadyExistsError: the generation is in the store already.
        DeniedError, NotFoundError, UnavailableError, TimedOutError, StorageError: so says the
            registry, or the daemon.
        SealcarError: what the daemon found.
    """
    with ExitStack() as files:
        place = files.enter_context(Repository(reference, access or Access()))
        data, digest = place.manifest()
        source = _Source(place, artifacts.read(data))
        plan = plan_of(source, files, name=name, version=version)
        if plan is None:
            raise InvalidPackageError("the artifact holds no sealed package")
        with plan:
            source.check(plan)
            made = catalogue.import_(plan, kek=kek, sealed=True, progress=progress)
    return Pulled(
        made.name,
        made.version,
        made.generation,
        made.package_id,
        digest,
        len(plan.payloads),
        plan.size,
    )


class _Source:
    """An artifact, as a sealed export that lies somewhere."""

    def __init__(self, place: Repository, artifact: Artifact) -> None:
        self._place, self._artifact = place, artifact

    def manifest(self) -> bytes:
        """Return the package's own manifest."""
        return b"".join(self._place.get(self._artifact.config))

    def open(self, path: PayloadPath) -> _Layer:
        """Return a payload.

        Raises:
            NotFoundError: no layer is one.
        """
        blob = self._artifact.layers.get(str(path))
        if blob is None:
            raise NotFoundError(f"{shown(str(path))} isn't in the artifact")
        return _Layer(self._place, blob)

    def check(self, plan: ImportPlan) -> None:
        """Check that the seal record names every layer.

        Raises:
            InvalidPackageError: it doesn't.
        """
        if len(plan.payloads) != len(self._artifact.layers):
            raise InvalidPackageError("the artifact has layers that its seal record doesn't name")


@dataclass(frozen=True)
class _Layer:
    """A payload in a registry."""

    place: Repository
    blob: Blob

    @property
    def size(self) -> int:
        """In bytes."""
        return self.blob.size

    def chunks(self) -> Iterator[bytes]:
        """Yield it as it comes."""
        return self.place.get(self.blob)
