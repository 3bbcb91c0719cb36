"""From a store into a registry: a generation is read once for its digests, and once to be sent.

Nothing of it is put on a disk meanwhile, and what the registry has already isn't sent again. The
tag comes last: who pulls meanwhile gets what was there before.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.errors import (
    ConflictError,
    InvalidNameError,
    InvalidPackageError,
    TimedOutError,
    UnavailableError,
)
from sealcar.exports.paths import MANIFEST
from sealcar.oci import artifacts
from sealcar.oci.access import Access
from sealcar.oci.artifacts import Artifact, Blob
from sealcar.oci.outflow import Outflow
from sealcar.oci.references import repository
from sealcar.oci.repository import Repository
from sealcar.publish.manifests import MAX_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from sealcar.catalogue import Catalogue
    from sealcar.catalogue.exporting import Outgoing
    from sealcar.catalogue.intake import Exported
    from sealcar.catalogue.values import Watcher
    from sealcar.exports import Recipient
    from sealcar.oci.references import Reference

_TRIES: Final = 3  # to send what is missing, without a blob that arrived between
_WAIT: Final = 0.5


@dataclass(frozen=True)
class Wanted:
    """What is pushed, and for whom.

    Attributes:
        name: of the package.
        version: empty: the current one.
        generation: 0: the newest.
        recipient: somebody else whom it is for; None: the daemon's own key opens it.
    """

    name: str
    version: str = ""
    generation: int = 0
    recipient: Recipient | None = None


@dataclass(frozen=True)
class Pushed:
    """What a registry has now.

    Attributes:
        name, version, generation: of the package.
        digest: of the artifact's manifest, by which nobody can exchange it.
        layers: how many payloads.
        size: bytes of all of it.
        uploaded, mounted, present: how many payloads were sent, taken from another repository of
            the registry, and there before.
        sent: bytes of those sent.
    """

    name: str
    version: str
    generation: int
    digest: str
    layers: int
    size: int
    uploaded: int
    mounted: int
    present: int
    sent: int


def push(
    catalogue: Catalogue,
    wanted: Wanted,
    reference: Reference,
    *,
    access: Access | None = None,
    other: str = "",
    progress: Watcher | None = None,
) -> Pushed:
    """Send a generation to a registry, sealed. The tag appears once all of it is there.

    Args:
        catalogue: of the daemon.
        wanted: what is sent.
        reference: where to, with a tag.
        access: how the registry is reached, and as whom.
        other: a repository of the same registry that may have some of it.
        progress: is told how far it is, of either round.

    Raises:
        InvalidNameError: the reference names no tag, or a digest.
        ConflictError: the package changed meanwhile.
        DeniedError, NotFoundError, UnavailableError, TimedOutError, StorageError: so says the
            registry, or the daemon.
        SealcarError: what the daemon found.
    """
    if not reference.tag or reference.digest:
        raise InvalidNameError(f"{reference}: what is pushed needs a tag, and no digest")
    if other:
        repository(other)
    with Repository(reference, access or Access()) as place:
        outgoing = catalogue.outgoing(
            wanted.name, wanted.version, wanted.generation, recipient=wanted.recipient
        )
        with _Hashed() as hashed:
            found = outgoing.deliver(hashed, progress)
        artifact = hashed.artifact(found)
        manifest = artifact.written()
        again = catalogue.outgoing(
            found.name, found.version, found.generation, recipient=wanted.recipient
        )
        sending = _Sending(place, artifact, again, other)
        sending.run(progress)
        if not place.has(artifact.config):
            place.put(artifact.config, iter([bytes(hashed.manifest)]))
        place.put_manifest(manifest)
    return Pushed(
        found.name,
        found.version,
        found.generation,
        Blob.of(manifest).digest,
        len(artifact.layers),
        artifact.size,
        sending.uploaded,
        sending.mounted,
        len(artifact.layers) - sending.uploaded - sending.mounted,
        sending.sent,
    )


class _Hashed:
    """Takes an export, and keeps of it the manifest and the digest of each payload."""

    def __init__(self) -> None:
        self.manifest = bytearray()
        self._layers: dict[str, Blob] = {}
        self._path, self._size, self._digest = "", 0, hashlib.sha256()

    def file(self, path: str, size: int) -> None:
        """Begin the next file."""
        self.finish()
        self._path, self._size, self._digest = path, size, hashlib.sha256()
        if path == MANIFEST and size > MAX_MANIFEST:
            raise InvalidPackageError(
                f"the package's manifest has over {MAX_MANIFEST} bytes: no daemon would import it"
            )

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        if self._path == MANIFEST:
            self.manifest += data
        else:
            self._digest.update(data)

    def finish(self) -> None:
        """End the file that was begun last."""
        if self._path not in ("", MANIFEST):
            self._layers[self._path] = Blob(f"sha256:{self._digest.hexdigest()}", self._size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def artifact(self, found: Exported) -> Artifact:
        """Return what came."""
        self.finish()
        data = bytes(self.manifest)
        annotations = artifacts.described(data, found.name, found.version, found.generation)
        return Artifact(Blob.of(data), self._layers, annotations)


class _Sending:
    """The second round: what the registry lacks is sent, until it has it all."""

    def __init__(self, place: Repository, artifact: Artifact, again: Outgoing, other: str) -> None:
        self._place, self._artifact, self._again, self._other = place, artifact, again, other
        self.uploaded = self.mounted = self.sent = 0

    def run(self, progress: Watcher | None) -> None:
        """Send it. A round that breaks off is followed by another one for what is missing."""
        tried, fewest = 0, len(self._artifact.layers) + 1
        while missing := self._missing():
            tried = tried + 1 if len(missing) >= fewest else 1
            fewest = min(fewest, len(missing))
            try:
                self._round(missing, progress)
            except (UnavailableError, TimedOutError):
                # the daemon waits for nobody long, and a registry may take its time over a blob
                if tried >= _TRIES:
                    raise
                time.sleep(_WAIT * 2**tried)
            else:
                return  # whether it has them, it says of the manifest

    def _missing(self) -> set[str]:
        blobs = set(self._artifact.layers.values())
        return {blob.digest for blob in blobs if not self._place.has(blob)}

    def _round(self, missing: set[str], progress: Watcher | None) -> None:
        with Outflow(self._again, progress) as files:
            for path, size in files:
                if path == MANIFEST:
                    continue  # wrapped anew each time: the first one counts
                blob = self._artifact.layers.get(path)
                if blob is None or blob.size != size:
                    raise _changed()
                if blob.digest in missing:
                    self._send(blob, files)
                    missing.remove(blob.digest)
                if not missing:
                    return
        raise _changed()

    def _send(self, blob: Blob, files: Outflow) -> None:
        if self._place.put(blob, _same(blob, files), other=self._other):
            self.uploaded += 1
            self.sent += blob.size
        else:
            self.mounted += 1


def _same(blob: Blob, files: Outflow) -> Iterator[bytes]:
    """Yield the current file, as long as it is what it was."""
    digest, left = hashlib.sha256(), blob.size
    for piece in files.pieces():
        digest.update(piece)
        left -= len(piece)
        # before the last of it is sent: so a registry never has all of another one
        if not left and f"sha256:{digest.hexdigest()}" != blob.digest:
            raise _changed()
        yield piece


def _changed() -> ConflictError:
    return ConflictError("the package changed while it was pushed: push it again")
