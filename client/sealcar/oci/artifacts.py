"""The manifest of an artifact: what a sealed package is in a registry.

    config   the package's own manifest, with its seal record
    layers   one for each payload, as it lies in a store: ciphertext

The names are of this project; the form is the image manifest of the OCI, version 1.1.
Nothing of it is believed: digests are checked, paths too, and the daemon checks all the rest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from sealcar.errors import InvalidNameError, InvalidPackageError, UnknownFormatError
from sealcar.exports.paths import PayloadPath
from sealcar.names import shown
from sealcar.oci.references import is_digest
from sealcar.publish.manifests import MAX_MANIFEST

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT: Final = "application/vnd.sealcar.package.v1"
CONFIG: Final = "application/vnd.sealcar.manifest.v1+json"
PAYLOAD: Final = "application/vnd.sealcar.payload.v1"
# of an artifact's manifest: what the registry of the CNCF takes, and many others
MOST: Final = 4 << 20
TITLE: Final = "org.opencontainers.image.title"
VERSION: Final = "org.opencontainers.image.version"
GENERATION: Final = "sealcar.generation"
EPS: Final = "sealcar.ep"
_SHOWN_EPS: Final = 1000
_MOST_SIZE: Final = 1 << 60
_OURS: Final = "application/vnd.sealcar."


@dataclass(frozen=True)
class Blob:
    """Bytes in a registry.

    Attributes:
        digest: "sha256:…".
        size: in bytes.
    """

    digest: str
    size: int

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """Describe these bytes."""
        return cls(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


@dataclass(frozen=True)
class Artifact:
    """A sealed package as a registry has it.

    Attributes:
        config: its manifest, with the seal record.
        layers: its payloads, by their paths in the package.
        annotations: for people and tools; nothing here acts on them.
    """

    config: Blob
    layers: dict[str, Blob]
    annotations: dict[str, str]

    @property
    def size(self) -> int:
        """Bytes of it all, without the artifact's own manifest."""
        return self.config.size + sum(blob.size for blob in self.layers.values())

    def written(self) -> bytes:
        """Return its manifest: the same bytes each time.

        Raises:
            InvalidPackageError: no registry takes one of that size.
        """
        layers = [
            {**_descriptor(PAYLOAD, blob), "annotations": {TITLE: path}}
            for path, blob in self.layers.items()
        ]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": ARTIFACT,
            "config": _descriptor(CONFIG, self.config),
            "layers": layers,
            "annotations": self.annotations,
        }
        # as it is written by default: tools in Python that take it apart and write it again, as
        # oras does, leave its digest as it is
        data = json.dumps(manifest).encode()
        if len(data) > MOST:
            raise InvalidPackageError(
                f"the package has too many files for an artifact: its manifest would have over"
                f" {MOST} bytes; send a tar (`sealcar export --tar`)"
            )
        return data


def described(manifest: bytes, name: str, version: str, generation: int) -> dict[str, str]:
    """Return the annotations of a package: what its manifest tells everybody."""
    found = {TITLE: name, VERSION: version, GENERATION: str(generation)}
    eps = ",".join(sorted(_eps(manifest)))
    return {**found, EPS: eps} if eps and len(eps) <= _SHOWN_EPS else found


def read(data: bytes) -> Artifact:
    """Take an artifact's manifest apart.

    Raises:
        InvalidPackageError: it is no sealed package, or breaks a rule.
        UnknownFormatError: a newer sealcar made it.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _wrong("is no JSON") from error
    if not isinstance(value, dict) or value.get("mediaType", MANIFEST_TYPE) != MANIFEST_TYPE:
        raise _wrong(f"is no {MANIFEST_TYPE}")
    kind = value.get("artifactType")
    if kind != ARTIFACT:
        if isinstance(kind, str) and kind.startswith(_OURS):
            raise UnknownFormatError(
                f"the artifact is {shown(kind)}, of a newer sealcar: update this one"
            )
        raise _wrong(f"is no sealed package: its type is {shown(kind)}, not {ARTIFACT}")
    if value.get("schemaVersion") != 2:  # noqa: PLR2004  (that of the OCI)
        raise _wrong("has another schemaVersion than 2")
    config = _blob(value.get("config"), CONFIG)
    if config.size > MAX_MANIFEST:
        raise _wrong(f"has a package's manifest of over {MAX_MANIFEST} bytes")
    layers = value.get("layers")
    if not isinstance(layers, list):
        raise _wrong("has no layers")
    found: dict[str, Blob] = {}
    for layer in layers:
        blob = _blob(layer, PAYLOAD)
        path = _path(layer)
        if path in found:
            raise _wrong(f"has {shown(path)} twice")
        found[path] = blob
    return Artifact(config, found, {})


def _path(layer: dict[str, Any]) -> str:
    annotations = layer.get("annotations")
    path = annotations.get(TITLE) if isinstance(annotations, dict) else None
    if not isinstance(path, str):
        raise _wrong(f"has a layer without {TITLE}")
    try:
        PayloadPath.parse(path)
    except InvalidNameError as error:
        raise _wrong(f"has a bad path: {error.message}") from error
    return path


def _blob(value: object, kind: str) -> Blob:
    if not isinstance(value, dict) or value.get("mediaType") != kind:
        raise _wrong(f"has something else where {kind} belongs")
    digest, size = value.get("digest"), value.get("size")
    if not isinstance(digest, str) or not is_digest(digest):
        raise _wrong("has a digest that isn't sha256: and 64 hexadecimal digits")
    # true is an integer, too
    if type(size) is not int or not 0 <= size <= _MOST_SIZE:
        raise _wrong(f"has a size of {shown(size)}")
    return Blob(digest, size)


def _descriptor(kind: str, blob: Blob) -> dict[str, Any]:
    return {"mediaType": kind, "digest": blob.digest, "size": blob.size}


def _eps(manifest: bytes) -> set[str]:
    """Return the execution providers that a package's variants are for."""
    try:
        components = json.loads(manifest)["components"].values()
        bodies = [body for each in components for body in each["variants"].values()]
        return {body["ep"] for body in bodies if isinstance(body.get("ep"), str) and body["ep"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()  # whoever takes it in says more


def _wrong(finding: str) -> InvalidPackageError:
    return InvalidPackageError(f"the artifact {finding}")
