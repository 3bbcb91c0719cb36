"""What a seal record says: everything that belongs to one generation of a package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sealcar_server.sealing.canonical import CoveredComponent
from sealcar_server.sealing.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

RecordComponent: TypeAlias = CoveredComponent


@dataclass(frozen=True, slots=True)
class RecordPayload:
    """One payload.

    Attributes:
        name: in its variant or asset.
        kind: "model", "initializers", "blob" or "other".
        size: of the plaintext.
        sealed: False: stored in plain.
        commitment: of a sealed one; empty for a plain one.
        digest: keyed digest of a sealed one's plaintext; empty where it wasn't computed.
        sha256: of a plain one; empty for a sealed one.
    """

    name: str
    kind: str
    size: int
    sealed: bool = True
    commitment: bytes = b""
    digest: bytes = b""
    sha256: bytes = b""

    @property
    def file_size(self) -> int:
        """How many bytes its file has."""
        return Layout.of_plain(self.size).file_size if self.sealed else self.size


@dataclass(frozen=True, slots=True)
class RecordVariant:
    """One variant, its digests as in `canonical.CoveredVariant`."""

    component: str
    variant: str
    body: bytes
    executor_info: Mapping[str, bytes]
    payloads: tuple[RecordPayload, ...]


@dataclass(frozen=True, slots=True)
class RecordAsset:
    """One shared asset: its key wrapped for this package.

    Attributes:
        uri: of the ciphertext tree, "sha256:…".
        asset_id: 16 bytes.
        wrapped: by `PackageKeys.wrap_asset`.
        payloads: of the asset.
    """

    uri: str
    asset_id: bytes
    wrapped: bytes
    payloads: tuple[RecordPayload, ...]


@dataclass(frozen=True, slots=True)
class Transit:
    """What makes a record one of a package on its way to somebody else.

    Attributes:
        not_after: seconds since 1970 after which nobody takes it in; 0: no end.
    """

    not_after: int = 0


@dataclass(frozen=True, slots=True)
class SealRecord:
    """One generation of a package.

    Attributes:
        name, version: in the store.
        package_id: 16 bytes, the same in every generation.
        generation: 1 or more.
        previous: SHA-256 of the record of the generation before; empty for the first.
        kek_alias: of the key-encryption key in the daemon's configuration.
        kek_version: of that key.
        wrapped: the package key under it.
        package: digests of the manifest's top-level fields, as in `canonical.Covered`.
        components: every component, its digest as in `canonical.CoveredComponent`.
        variants: every variant, in the manifest's order.
        assets: every shared asset that the package uses.
        transit: of a package on its way: its key is wrapped for a recipient. None in a store.
    """

    name: str
    version: str
    package_id: bytes
    generation: int
    previous: bytes
    kek_alias: str
    kek_version: str
    wrapped: bytes
    package: Mapping[str, bytes]
    components: tuple[RecordComponent, ...]
    variants: tuple[RecordVariant, ...]
    assets: tuple[RecordAsset, ...] = ()
    transit: Transit | None = None
