"""What a look at a package's manifest came to, as values that know nothing of the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealcar.v1 import package_store_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

# whatever is newer than this client is an error
_SEVERITIES: Final[Mapping[pb.Severity.ValueType, str]] = {pb.SEVERITY_WARNING: "warning"}


@dataclass(frozen=True)
class Finding:
    """One thing that isn't as it should be.

    Attributes:
        severity: "error": refused when it is opened; "warning": served all the same.
        code: which kind.
        place: JSON Pointer into the manifest, or a file's path in the generation.
        message: one sentence.
    """

    severity: str
    code: str
    place: str
    message: str


@dataclass(frozen=True)
class Validated:
    """The structure of one generation.

    Attributes:
        name, version, generation: what was looked at.
        findings: in the order of the manifest.
        verified: False: the daemon is locked, so the seal record itself couldn't be checked.
    """

    name: str
    version: str
    generation: int
    findings: tuple[Finding, ...]
    verified: bool

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps the generation, or a part of it, from being served."""
        return tuple(each for each in self.findings if each.severity == "error")


@dataclass(frozen=True)
class Resealed:
    """What was sealed anew, or would be.

    Attributes:
        generation: the new one; 0 if it was only looked.
        changed: JSON Pointers of what differs from what was sealed before.
        unsealed: JSON Pointers of variants whose payloads nobody sealed: not carried over.
        manifest_sha256: of the manifest that was looked at.
    """

    generation: int
    changed: tuple[str, ...]
    unsealed: tuple[str, ...]
    manifest_sha256: bytes


def validated(message: pb.ValidateResponse) -> Validated:
    """Take a validation off the wire."""
    return Validated(
        name=message.package.name,
        version=message.package.version,
        generation=message.generation,
        findings=tuple(
            Finding(_SEVERITIES.get(each.severity, "error"), each.code, each.place, each.message)
            for each in message.findings
        ),
        verified=message.verified,
    )


def resealed(message: pb.ResealResponse) -> Resealed:
    """Take what was sealed anew off the wire."""
    return Resealed(
        generation=message.generation,
        changed=tuple(message.changed),
        unsealed=tuple(message.unsealed),
        manifest_sha256=message.manifest_sha256,
    )
